"""Systems that are no adapters, one file each with the contract of harness.study.systems; a file's name is a kind."""
