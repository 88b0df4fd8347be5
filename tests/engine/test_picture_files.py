"""Large pictures of figures are files that a page asks for, small ones stay in it."""

import base64

from galley.show.picture_files import with_picture_files

LARGE, SMALL = (base64.b64encode(b"\x89PNG" * count).decode() for count in (2000, 20))
IMAGE = '<image href="data:image/png;base64,{}"/>'


def test_a_large_picture_is_a_file_once_and_a_small_one_stays(tmp_path):
    figure = "".join(IMAGE.format(picture) for picture in (LARGE, SMALL, LARGE))
    result = with_picture_files(figure, "", "chapters/1/", tmp_path)
    (path,) = (tmp_path / "assets/images/drawn").iterdir()
    assert path.read_bytes() == b"\x89PNG" * 2000
    reference = f'<image href="../../assets/images/drawn/{path.name}"/>'
    assert result == reference + IMAGE.format(SMALL) + reference


def test_the_narrow_form_of_a_figure_is_a_file_that_it_names(tmp_path):
    figure = '<div class="drawn-svg" data-narrow=""><svg/></div>'
    result = with_picture_files(figure, "<svg>narrow</svg>", "chapters/1/", tmp_path)
    (path,) = (tmp_path / "assets/images/drawn").iterdir()
    assert path.read_text(encoding="utf-8") == "<svg>narrow</svg>"
    assert result == f'<div class="drawn-svg" data-narrow="../../assets/images/drawn/{path.name}"><svg/></div>'
