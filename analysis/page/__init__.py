"""A report as one HTML file to look around in, for people who open no terminal; it says what report.md says."""
