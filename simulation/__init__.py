"""Whole brokers in virtual time, by seed: the loop, network, disks, machines and faults that tests run them with."""
