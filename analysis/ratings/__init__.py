"""What people say of the tasks: how far raters agree, themes, and claims about less data."""
