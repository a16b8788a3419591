"""A page as a tree, read by the standard parser, so that tests see what a browser would."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = {"meta", "img", "input", "br", "link", "base", "hr"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    children: list["Node | str"] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def text(self) -> str:
        """All text inside, white space tidied."""
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join(" ".join(parts).split())

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, tag: str = "", *classes: str) -> list["Node"]:
        """Every element inside with that tag and those classes."""
        return [
            n
            for n in self.walk()
            if n is not self and (not tag or n.tag == tag) and set(classes) <= n.classes
        ]

    def one(self, tag: str = "", *classes: str) -> "Node":
        return self.all(tag, *classes)[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in EMPTY:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Node:
    """The tree; elements that do not nest are an error."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], f"never closed: {[node.tag for node in reader.open[1:]]}"
    return reader.root


def rows(table: Node) -> list[dict[str, Node]]:
    """The rows of a table by the names of their columns; a name that is there again is numbered."""
    names: list[str] = []
    for cell in table.one("thead").all("th"):
        name = cell.text
        names.append(
            name
            if name not in names
            else f"{name}{sum(each.startswith(name) for each in names) + 1}"
        )
    body = table.one("tbody").all("tr")
    return [
        dict(zip(names, [n for n in row.children if isinstance(n, Node)], strict=True))
        for row in body
    ]


def number(text: str) -> float:
    """The number that a text says: thousands apart, a real minus sign."""
    return float(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))
