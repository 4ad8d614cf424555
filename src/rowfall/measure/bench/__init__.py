"""``rowfall bench``: the tables of five published articles at the size of this machine.

``published`` holds their figures, ``places`` the services and files, ``ways`` the commands of both
sides, ``a1`` to ``a5`` the comparisons of each article, and ``runner`` takes them in turns.
"""
