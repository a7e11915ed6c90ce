"""Coordinators: the shared runtime, and one package for each kind of coordinator."""
