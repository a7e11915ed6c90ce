"""The transaction coordinator: the states of transactional ids, and the markers that end transactions (KIP-98)."""
