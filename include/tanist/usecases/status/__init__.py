"""Can I fail over now, and why?"""
