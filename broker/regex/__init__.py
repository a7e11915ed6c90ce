"""Regular expressions with the syntax of RE2/J, which Kafka uses for patterns of clients (Kafka: com.google.re2j).

Python's `re` has another syntax, and needs exponential time for some patterns. Here matching takes time proportional to
the text, and to the length of the pattern at most.
"""
