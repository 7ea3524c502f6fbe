"""What the tests stand on: services, databases, workers, and one way to wait."""
