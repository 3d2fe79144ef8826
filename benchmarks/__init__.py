"""Side by side with what a user would write today: scripts that print ratios and never judge them."""
