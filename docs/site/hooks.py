"""For mkdocs: what the theme would load from elsewhere is loaded from here."""

from __future__ import annotations

from typing import Any

_SHIM = "https://unpkg.com/iframe-worker/shim"


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """One page, with search_from_disk.js in place of the theme's script for the same."""
    up = "../" * page.url.count("/")
    return output.replace(_SHIM, f"{up}site/search_from_disk.js")


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """404.html, which is served at any address."""
    return output_content.replace(_SHIM, "/site/search_from_disk.js") if template_name == "404.html" else output_content
