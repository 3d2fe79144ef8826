"""What training runs add to the error of gains."""
