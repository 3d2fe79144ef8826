"""What to look at before a study is launched: what is here, what it will cost, and why it must be trained."""
