"""What systems answer beside what people do: rationales, annotators, probabilities, and options asked otherwise."""
