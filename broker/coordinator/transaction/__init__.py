"""The transaction coordinator: the state of transactional ids, and the markers that end transactions."""
