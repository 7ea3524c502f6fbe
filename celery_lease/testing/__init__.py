"""For the tests of projects and stores: a clock to move, and the contract every store keeps."""
