"""What stands beside the transfers of a study, and is compared with them: controls, and merged intermediates."""
