"""Signed events in, leased deliveries out."""
