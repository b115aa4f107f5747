"""Names in Chinese, Japanese and Korean, which no capital letter shows: found by what stands before
or behind them."""

from open_token.passes._late import late
from open_token.passes._people_table import names

_CHINESE_FAMILY = (
    "欧阳|司马|上官|诸葛|夏侯|东方|皇甫|尉迟|公孙|慕容|令狐|"
    "[王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜"
    "范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文張劉陳楊趙黃吳孫馬羅鄭謝韓馮許呂蘇盧]"
)
_KOREAN_FAMILY = "[김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구민진지엄채원천방공]"
_CHINESE = rf"(?:{_CHINESE_FAMILY})[一-鿿]{{1,2}}"
_SIGN = r"[是为為は은는:：\x01=]{0,2}[ 　]{0,2}[\"“「]?"

_SURE = late(
    rf"(?:姓名|名字|联系人|聯絡人|收件人|作者|患者|我叫){_SIGN}(?P<zh>{_CHINESE})(?![一-鿿])|"
    rf"(?<![一-鿿])(?P<title>{_CHINESE})(?=先生|女士|小姐|老师|同学|教授|经理|医生)|"
    rf"(?:氏名|お名前|名前|担当者?|著者){_SIGN}"
    r"(?P<ja>[一-鿿]{1,4}[ 　]?[一-鿿ぁ-ゖァ-ヴー]{1,4})(?=$|[\s、。」\"です])|"
    rf"(?:이름|성명|담당자|저는){_SIGN}(?P<ko>{_KOREAN_FAMILY}[가-힣]{{2}})(?=$|[\s,.\"]|입니다|이고|이에요)|"
    rf"(?<![가-힣])(?P<polite>{_KOREAN_FAMILY}[가-힣]{{2}})(?= ?[씨님](?![가-힣]))"
)
_POLITE = late(r"(?<![一-鿿])([一-鿿]{2,4})(?=さん|様|氏|くん|ちゃん)")


def asian_people(line: str) -> list[tuple[int, int]]:
    """Where such names stand in a line."""
    spans = [found.span(found.lastgroup or 0) for found in _SURE.finditer(line)]
    known = names().family
    spans += [
        found.span(1)
        for found in _POLITE.finditer(line)
        if found[1] in known or found[1][:2] in known
    ]
    return spans
