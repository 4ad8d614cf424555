"""Recipe of ``generate://hits``: the 105 columns of ClickBench's table, with made-up visits.

Names, types and sorting key are those of the published definition. The rows are not those of the
published data: visits of eight hits, few sites with most of them, titles and addresses that come
back with their page, and columns that are empty in nearly every row.
"""

from __future__ import annotations

from rowfall.sources.recipes import Recipe, array, hash_of, schema

_ORDER_BY = "(CounterID, EventDate, UserID, EventTime, WatchID)"
_ROWS_A_DAY = 3_300_000
_FIRST_DAY = 15887  # 2013-07-01, as days since 1970: a month is made, then it begins again
_DAYS = 31

# Two alphabets: a title is one to two bytes a letter, as titles of the web are.
_WORDS = """
погода москва купить новости сегодня фото карта расписание автобус билеты кино онлайн рецепты суп
ремонт квартира дом сад цветы работа вакансии форум отзывы цена доставка обувь одежда детская
коляска игры бесплатно музыка клуб спорт футбол хоккей банк кредит авто запчасти шины дача лето
море weather map photo video online free games music best price shop mobile phone review train
ticket hotel news sport city
"""
_HOSTS = """
auto city dom film foto game gorod info kino kniga kuhnya mama market mir moda muzyka novosti opt
otdyh portal radio rabota sad shop sport stroy svet tour video vse yarmarka zdorovie
"""
_SECTIONS = "catalog news forum foto item search board article"
_PHONES = [*[""] * 11, "iPad", "iPhone 3G", "Nokia 500", "S5230", "C6"]
_ENGINES = [
    "http://www.search.example/find?text=",
    "https://find.example/search?q=",
    "http://go.example/web?query=",
]
_CHARSETS = ["utf-8", "utf-8", "utf-8", "windows-1251"]
_COLOURS = ["5", "5", "5", "5", "0", "1", "6", "7", "E", "X", "D", "P", "W", "Q", "R", "2"]
_WIDTHS = [1280, 1366, 1440, 1600, 1680, 1920, 1024, 768]
_HEIGHTS = [1024, 768, 900, 900, 1050, 1080, 768, 1024]

# One line a column: name, type, value. ``h`` are 64 random bits of the hit, ``v`` of its visit,
# ``p`` of its page, ``u`` of its user, ``s`` is the number of the site.
_COLUMNS = """
WatchID Int64 = h
JavaEnable Int16 = v % 10 < 8
Title String = title
GoodEvent Int16 = 1
EventTime DateTime = second
EventDate Date = toDate(second, 'UTC')
CounterID Int32 = 1 + intHash32(s) % 250000
ClientIP Int32 = intHash32(u)
RegionID Int32 = if(u % 3 = 0, 229, bitAnd(bitShiftRight(u, 8), 4095))
UserID Int64 = u
CounterClass Int16 = if(s % 9 = 0, -1, s % 2)
OS Int16 = {os}[bitAnd(bitShiftRight(u, 20), 7) + 1]
UserAgent Int16 = {agents}[bitAnd(bitShiftRight(u, 24), 7) + 1]
URL String = url
Referer String = multiIf(hit > 0, from_url, searched, concat({engines}[v % 3 + 1], phrase), v % 5 = 0, '', concat('http://', host, '/'))
IsRefresh Int16 = h % 20 = 0
RefererCategoryID Int16 = if(hit > 0, s % 7, 0) * 1003
RefererRegionID Int32 = if(hit > 0, bitAnd(u, 511), 0)
URLCategoryID Int16 = if(s % 4 = 0, 9001 + s % 80, 0)
URLRegionID Int32 = if(s % 3 = 0, bitAnd(s, 511), 0)
ResolutionWidth Int16 = {widths}[screen]
ResolutionHeight Int16 = {heights}[screen]
ResolutionDepth Int16 = if(bitAnd(u, 15) = 0, 24, 32)
FlashMajor Int16 = if(phone, 0, 10 + bitAnd(u, 1))
FlashMinor Int16 = if(phone, 0, bitAnd(bitShiftRight(u, 4), 7))
FlashMinor2 String = if(phone, '', toString(bitAnd(bitShiftRight(u, 5), 1023)))
NetMajor Int16 = bitAnd(bitShiftRight(u, 9), 3)
NetMinor Int16 = bitAnd(bitShiftRight(u, 11), 3)
UserAgentMajor Int16 = 4 + bitAnd(bitShiftRight(u, 13), 31)
UserAgentMinor String = concat(substring('D4eaf1kL', bitAnd(u, 7) + 1, 1), substring('0xs2m9qw', bitAnd(bitShiftRight(u, 3), 7) + 1, 1))
CookieEnable Int16 = bitAnd(u, 63) > 0
JavascriptEnable Int16 = bitAnd(u, 127) > 0
IsMobile Int16 = phone
MobilePhone Int16 = if(phone, bitAnd(u, 63), 0)
MobilePhoneModel String = {phones}[bitAnd(bitShiftRight(u, 28), 15) + 1]
Params String = if(h % 40 = 0, concat('{"price":', toString(p % 90000), ',"item":"', word(p), '"}'), '')
IPNetworkID Int32 = bitAnd(bitShiftRight(intHash64(u), 7), 4194303)
TraficSourceID Int16 = multiIf(hit > 0, -1, searched, 2, v % 5 = 0, 0, 1)
SearchEngineID Int16 = if(searched, 2 + v % 3, 0)
SearchPhrase String = if(searched AND hit = 0, phrase, '')
AdvEngineID Int16 = if(v % 160 = 0, 2, 0)
IsArtifical Int16 = 0
WindowClientWidth Int16 = ResolutionWidth - 20 - bitAnd(v, 31)
WindowClientHeight Int16 = intDiv(ResolutionHeight * (60 + v % 35), 100)
ClientTimeZone Int16 = if(u % 5 = 0, 135, 99)
ClientEventTime DateTime = second + toInt32(bitAnd(u, 8191)) - 4096
SilverlightVersion1 Int16 = if(bitAnd(u, 3) = 0, 0, 5)
SilverlightVersion2 Int16 = if(bitAnd(u, 3) = 0, 0, 1)
SilverlightVersion3 Int32 = if(bitAnd(u, 3) = 0, 0, 19975 + bitAnd(u, 1023))
SilverlightVersion4 Int16 = 0
PageCharset String = {charsets}[s % 4 + 1]
CodeVersion Int32 = if(h % 50 = 0, 0, 1601)
IsLink Int16 = h % 17 = 0
IsDownload Int16 = h % 211 = 0
IsNotBounce Int16 = v % 3 > 0
FUniqID Int64 = if(bitAnd(u, 1) = 0, 0, intHash64(u + 1))
OriginalURL String = if(s % 6 = 0, concat(url, '?from=', word(v)), '')
HID Int32 = bitShiftRight(h, 34)
IsOldCounter Int16 = 0
IsEvent Int16 = h % 23 = 0
IsParameter Int16 = h % 40 = 0
DontCountHits Int16 = h % 9 = 0
WithHash Int16 = h % 31 = 0
HitColor String = {colours}[bitAnd(bitShiftRight(h, 40), 15) + 1]
LocalEventTime DateTime = second + bitAnd(u, 3) * 3600
Age Int16 = {ages}[bitAnd(bitShiftRight(u, 32), 7) + 1]
Sex Int16 = bitAnd(bitShiftRight(u, 35), 3) % 3
Income Int16 = bitAnd(bitShiftRight(u, 37), 3)
Interests Int16 = if(bitAnd(u, 3) = 0, 0, bitAnd(bitShiftRight(u, 16), 16383))
Robotness Int16 = if(u % 300 = 0, 97, bitAnd(bitShiftRight(u, 40), 63))
RemoteIP Int32 = intHash32(u + v)
WindowName Int32 = if(hit = 0, -1, toInt32(bitAnd(v, 8191)))
OpenerName Int32 = if(hit = 0, -1, toInt32(bitAnd(bitShiftRight(v, 13), 8191)))
HistoryLength Int16 = if(h % 3 = 0, 1, hit + bitAnd(v, 15))
BrowserLanguage String = if(u % 11 = 0, 'en', 'ru')
BrowserCountry String = multiIf(u % 17 = 0, 'US', u % 7 = 0, 'UA', 'RU')
SocialNetwork String = if(h % 900 = 0, word(h), '')
SocialAction String = if(h % 900 = 0, 'like', '')
HTTPError Int16 = if(h % 400 = 0, 404, 0)
SendTiming Int32 = if(timed, bitAnd(h, 255), 0)
DNSTiming Int32 = if(timed, bitAnd(bitShiftRight(h, 8), 127), 0)
ConnectTiming Int32 = if(timed, bitAnd(bitShiftRight(h, 15), 511), 0)
ResponseStartTiming Int32 = if(timed, bitAnd(bitShiftRight(h, 24), 1023), 0)
ResponseEndTiming Int32 = if(timed, ResponseStartTiming + bitAnd(h, 1023), 0)
FetchTiming Int32 = if(timed, ResponseEndTiming + bitAnd(v, 2047), 0)
SocialSourceNetworkID Int16 = if(v % 90 = 0, 1 + v % 5, 0)
SocialSourcePage String = if(v % 90 = 0, concat('http://', word(v), '.example/', toString(v % 100000)), '')
ParamPrice Int64 = if(h % 40 = 0, p % 90000, 0)
ParamOrderID String = if(h % 800 = 0, toString(bitShiftRight(h, 44)), '')
ParamCurrency String = if(h % 40 = 0, 'RUB', 'NH')
ParamCurrencyID Int16 = if(h % 40 = 0, 643, 0)
OpenstatServiceName String = if(v % 70 = 0, 'direct.example', '')
OpenstatCampaignID String = if(v % 70 = 0, toString(v % 7000000), '')
OpenstatAdID String = if(v % 70 = 0, toString(v % 300000000), '')
OpenstatSourceID String = if(v % 70 = 0, concat('search:', word(v), ':guarantee'), '')
UTMSource String = if(v % 35 = 0, 'market', '')
UTMMedium String = if(v % 35 = 0, 'cpc', '')
UTMCampaign String = if(v % 35 = 0, concat(word(v), '_', toString(v % 500)), '')
UTMContent String = if(v % 35 = 0, toString(v % 900000), '')
UTMTerm String = if(v % 35 = 0, phrase, '')
FromTag String = if(v % 120 = 0, word(v), '')
HasGCLID Int16 = v % 99 = 0
RefererHash Int64 = if(hit > 0, intHash64(p + 1), intHash64(v))
URLHash Int64 = intHash64(p)
CLID Int32 = if(u % 60 = 0, bitAnd(u, 65535), 0)
"""  # noqa: E501 - one line a column

_ROWS = """
FROM
(
    SELECT
        *,
        concat('http://', host, '/', {sections}[bitAnd(p, 7) + 1], '/', lower(hex(bitShiftRight(p, 40))), if(bitAnd(p, 32) > 0, concat('/?page=', toString(bitAnd(p, 15)), '&sort=', toString(bitAnd(p, 3))), '.html')) AS url,
        concat('http://', host, '/', {sections}[bitAnd(v, 7) + 1], '/') AS from_url,
        arrayStringConcat(arrayMap(n -> {words}[bitAnd(bitShiftRight(p, n * 6), 63) + 1], range(2 + bitAnd(p, 7))), ' ') AS title,
        arrayStringConcat(arrayMap(n -> {words}[bitAnd(bitShiftRight(v, 9 + n * 6), 63) + 1], range(1 + bitAnd(v, 3))), ' ') AS phrase
    FROM
    (
        SELECT
            h, v, s, hit, u,
            intHash64(s * 65536 + toUInt64(pow(bitAnd(bitShiftRight(h, 20), 65535) / 65536, 3) * 3000)) AS p,
            concat({hosts}[bitAnd(s, 31) + 1], toString(s), '.example') AS host,
            bitAnd(bitShiftRight(v, 33), 7) < 2 AS searched,
            bitAnd(bitShiftRight(u, 28), 15) > 10 AS phone,
            bitAnd(bitShiftRight(u, 44), 7) + 1 AS screen,
            h % 5 < 2 AS timed,
            toDateTime(({first_day} + intDiv(number, {rows_a_day}) % {days}) * 86400 + least(86399, toUInt32(v % 86000 + hit * (3 + h % 60))), 'UTC') AS second
        FROM
        (
            SELECT
                number, number % 8 AS hit, {h} AS h, {v} AS v,
                toUInt64(pow(bitShiftRight(v, 40) / 16777216, 3) * 6000) AS s,
                intHash64(bitAnd(v, 16777215) + {seed}) AS u
            FROM {range}
        )
    )
)
"""  # noqa: E501 - SQL reads better unbroken


def hits(seed: int) -> Recipe:
    """Return page views: 3.3 million a day, some 580 bytes a row as TSV."""
    lines = [line.split(" ", 2) for line in _COLUMNS.strip().splitlines()]
    parts = [(name, kind, value.removeprefix("= ")) for name, kind, value in lines]
    chosen = ",\n".join(f"    CAST({value}, '{kind}') AS {name}" for name, kind, value in parts)
    select = f"\nSELECT\n{chosen}{_ROWS}"
    values = {
        "words": array(_WORDS.split()),
        "sections": array(_SECTIONS.split()),
        "hosts": array(_HOSTS.split()),
        "phones": array(_PHONES),
        "engines": array(_ENGINES),
        "charsets": array(_CHARSETS),
        "colours": array(_COLOURS),
        "widths": array(_WIDTHS),
        "heights": array(_HEIGHTS),
        "os": array([2, 44, 3, 7, 88, 15, 2, 44]),
        "agents": array([3, 7, 82, 5, 21, 4, 3, 7]),
        "ages": array([0, 0, 22, 31, 39, 55, 31, 22]),
        "first_day": str(_FIRST_DAY),
        "rows_a_day": str(_ROWS_A_DAY),
        "days": str(_DAYS),
        "seed": str(seed % 2**31),
        "h": hash_of(seed, 31),
        "v": hash_of(seed, 32).replace("number", "intDiv(number, 8)"),
    }
    for name, value in values.items():
        select = select.replace("{" + name + "}", value)
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in parts)
    return Recipe(schema(columns, _ORDER_BY, 600.0), _with_words(select, values["words"]), 100_000)


def _with_words(select: str, words: str) -> str:
    """Write each ``word(x)`` as a word of the list that 6 bits of ``x`` choose."""
    for bits in "hvp":
        chosen = f"{words}[bitAnd(bitShiftRight({bits}, 48), 63) + 1]"
        select = select.replace(f"word({bits})", chosen)
    return select
