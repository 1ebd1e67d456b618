"""What compare_rivals.py is made of: models, questions, the rivals' processes, and what is made of their answers."""
