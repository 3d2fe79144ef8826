"""What explains gains, tested by a mixed model: slopes on ratings beside tasks, data sets and families that differ."""
