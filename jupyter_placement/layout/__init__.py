"""Where to draw what: the name scopes of a Placement, laid out one opened scope at a time.

Pure functions of a Placement: :func:`scope_tree` is made once; :func:`layout` is made again, in milliseconds, when a
scope is opened or closed.
"""

from jupyter_placement.layout.scopes import Scope, ScopeTree
from jupyter_placement.layout.shapes import Box, Link, View
from jupyter_placement.layout.tree import scope_tree
from jupyter_placement.layout.view import default_opened, layout

__all__ = ["Box", "Link", "Scope", "ScopeTree", "View", "default_opened", "layout", "scope_tree"]
