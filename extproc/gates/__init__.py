"""The five release gates: is this release fit to take traffic?"""
