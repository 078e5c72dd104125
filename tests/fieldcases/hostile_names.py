"""Names that would be markup, templates, TeX or line ends, if an output took them for more than text."""

from __future__ import annotations

HOSTILE = (
    "<title>",
    "/api/<id>",
    "</script><script>x</script>",
    '"><img src=x onerror="alert(1)">',
    "{{x}}",
    "{% raw %}",
    "&amp;",
    "1<2",
    "$\\frac{1}{2}$",
    "]]>",
    "<!-- x",
    "\\input{/etc/passwd}",
    "100 % _a_ #1 ~x ^2",
    "[bold red]not bold[/bold red]",
)
