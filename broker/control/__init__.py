"""Control of a broker by the tests of its clients, over HTTP: waits, faults, the clock, transcripts. Off by default."""
