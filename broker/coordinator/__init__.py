"""Coordinators: what they share, and one package a kind of coordinator."""
