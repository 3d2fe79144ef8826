"""Whether trained cells read what a reply answers: rows with another context, and what cells then say."""
