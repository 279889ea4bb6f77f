"""What plugins and capacity say about pods: asked once, and remembered."""
