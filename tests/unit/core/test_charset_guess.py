"""Which charset text may be written in."""

from __future__ import annotations

import pytest

from rowfall.core.charset_guess import decode, guess_charsets, shown_readings

WEST = "id,name,city\n1,Müller,Köln\n2,José,Málaga\n3,François,Besançon\n4,Åse,Zürich\n"
EAST = "id,name,city\n1,Łukasz,Łódź\n2,Žofie,Plzeň\n3,Małgorzata,Gdańsk\n4,Šárka,Brno\n"
RUSSIAN = "id,name,city\n1,Иван,Москва\n2,Пётр,Казань\n3,Анна,Самара\n"
TEXTS = {
    "windows-1252": WEST, "macintosh": WEST, "cp850": WEST, "windows-1250": EAST,
    "iso-8859-2": EAST, "windows-1251": RUSSIAN, "koi8-r": RUSSIAN, "ibm866": RUSSIAN,
    "iso-8859-5": RUSSIAN,
    "windows-1254": "1,Ayşe,İstanbul\n2,Çağrı,Eskişehir\n3,Gülşen,Muğla\n",  # noqa: RUF001
    "windows-1256": "1,محمد,القاهرة\n2,فاطمة,دبي\n3,علي,بغداد\n",
    "windows-874": "1,สมชาย,กรุงเทพ\n2,มาลี,เชียงใหม่\n",
    "gb18030": "1,张伟,北京\n2,王芳,上海\n3,李娜,广州\n", "big5": "1,陳大文,台北\n2,林小明,高雄\n",
    "shift_jis": "1,田中太郎,東京\n2,鈴木,大阪\n3,サトウ,名古屋\n",
    "euc-jp": "1,田中太郎,東京\n2,鈴木,大阪\n3,サトウ,名古屋\n",
    "euc-kr": "1,김철수,서울\n2,이영희,부산\n3,박민수,대구\n",
}  # fmt: skip


@pytest.mark.parametrize("charset", TEXTS)
def test_the_first_guess_reads_the_text(charset: str) -> None:
    text = TEXTS[charset]
    data = b"".join(_encoded(line, charset) for line in text.splitlines(keepends=True))
    assert decode(data, guess_charsets(data)[0]) == text


def _encoded(line: str, charset: str) -> bytes:
    names = {"macintosh": "mac-roman", "ibm866": "cp866", "windows-874": "cp874"}
    return line.encode(names.get(charset, charset))


def test_a_line_is_shown_as_each_charset_reads_it() -> None:
    data = "1,Müller\n2,Köln\n3,Jörg\n".encode("mac-roman")
    shown = shown_readings(data.partition(b"\n")[0], data)
    assert shown[0] == ("macintosh", "1,Müller")
    assert len({text for _, text in shown}) == len(shown) > 1
    # Cut within a character of two bytes.
    cut = "1,张伟".encode("gb18030")[:-1]
    assert ("gb18030", "1,张") in shown_readings(
        cut, "1,张伟,北京\n2,王芳,上海\n".encode("gb18030")
    )


@pytest.mark.parametrize("sign", ["©", "±"])
def test_a_sign_that_stands_alone_is_no_letter(sign: str) -> None:
    assert guess_charsets(f"a,b\n1,{sign}\n".encode("cp1252"))[0] == "windows-1252"
