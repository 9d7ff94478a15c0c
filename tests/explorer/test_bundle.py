"""Modules and style sheets are bundled in the order of their imports; what cannot be bundled is refused by name."""

import re
from pathlib import Path

import pytest

from explorer import bundle


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty folder in place of ``assets/``."""
    monkeypatch.setattr(bundle, "ASSETS", tmp_path)
    (tmp_path / "panels").mkdir()
    return tmp_path


def test_a_module_runs_once_after_the_modules_that_it_imports(assets: Path) -> None:
    (assets / "page.js").write_text('import { draw, WIDE as width } from "./panels/ink.js";\n'
                                    'import "./panels/mask.js";\n\n'
                                    "export async function open() { draw(width); }\nconst own = 1;\n")
    (assets / "panels" / "mask.js").write_text('import { draw } from "./ink.js";\ndraw();\n')
    (assets / "panels" / "ink.js").write_text("export function draw() {}\nexport const WIDE = 3;\n"
                                              "export class Pen {}\n")
    text = bundle.script("page.js")
    assert re.findall(r'^modules\["(.+)"\] = ', text, re.MULTILINE) == ["panels/ink.js", "panels/mask.js", "page.js"]
    assert 'const { draw, WIDE: width } = modules["panels/ink.js"];' in text
    assert "return { draw, WIDE, Pen };" in text and "return { open };" in text
    assert not re.search(r"^\s*(import|export)\b", text, re.MULTILINE)


@pytest.mark.parametrize(("page", "says"), [
    ("export default 3;\n", "page.js.*export default 3;"), ('import * as ink from "./panels/ink.js";\n', "page.js"),
    ('const mark = "</script>";\n', "script")])
def test_a_module_that_cannot_be_bundled_is_refused(assets: Path, page: str, says: str) -> None:
    (assets / "page.js").write_text(page)
    with pytest.raises(ValueError, match=says):
        bundle.script("page.js")


def test_style_sheets_are_inserted_where_they_are_imported(assets: Path) -> None:
    (assets / "page.css").write_text('@import "panels/all.css";\np { color: red; }\n')
    (assets / "panels" / "all.css").write_text('@import "one.css";\n@import "two.css";\n')
    for name in ("one", "two"):
        (assets / "panels" / f"{name}.css").write_text(f".{name} {{ margin: 0; }}\n")
    assert bundle.style("page.css") == ".one { margin: 0; }\n.two { margin: 0; }\np { color: red; }\n"
