"""Helpers for tests, of this project and of programs built on it. No part of the product imports them."""
