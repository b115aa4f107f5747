"""The web application: the sessions of this machine in a browser.

The style and the script of exported pages are in this folder, too.
"""
