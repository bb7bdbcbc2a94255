"""`tanist status` and `tanist doctor`: can I fail over now, and if not, why?"""
