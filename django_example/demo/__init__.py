"""One command that shows the whole product at work."""
