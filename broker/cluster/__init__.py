"""One node among others: who they are, how they are reached, and what this one is to them."""
