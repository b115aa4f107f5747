"""What stands around a name and gives it away, in several languages, and how much each sign
weighs."""

import re

from open_token.passes._late import late

# What opens a name outright: almost any capitalised word that follows is one.
SURE = 3.0
LIKELY = 2.0
HINT = 1.0

_TITLES = """mr mrs ms mx miss dr prof professor herr frau hr monsieur madame mme mlle señor señora señorita sr sra srta
    doña signor signora sig dott dra senhor senhora pani paní heer mevrouw господин госпожа пані κύριος κυρία""".split()
_GREETED = """dear cher chère liebe lieber geehrter geehrte querido querida estimado estimada caro cara gentile prezado
    prezada beste kära kære kjære szanowny szanowna drogi droga vážený vážená уважаемый уважаемая дорогой
    дорогая regards sincerely cheers yours grüße grüßen cordialement saludos atenciosamente saluti says said
    @author""".split()
_HINTS = """hi hello hey hola hallo bonjour salut olá ciao hej привет thanks thx merci danke gracias obrigado obrigada
    grazie you i'm am it's asked asks told tell met meet with from by for to and & or between under versus vs
    und et von par por ping cc contact call calls starring featuring feat kid child son daughter wife husband
    brother sister mother father uncle aunt friend colleague boss neighbour neighbor singer player director
    songwriter ceo cto founder president minister senator actor actress writer poet engineer lawyer judge doctor
    nurse assistant of copyright (c) ©""".split()

WORDS_BEFORE = (
    dict.fromkeys(_HINTS, HINT) | dict.fromkeys(_GREETED, LIKELY) | dict.fromkeys(_TITLES, SURE)
)
"""The word right before a name, in small letters, without a stop or comma."""

_PHRASES = (
    r"(?:my|your|his|her|their|the|maiden|full|last|first|sur) ?name(?:s? (?:is|was)|'s)|your name\?|"
    r"(?:calls?|called|nicknamed) (?:me|him|her)|"
    r"(?:i am|i'm|is|was|man|woman|person|girl|boy|guy|someone) (?:named|called)|"
    r"ich hei(?:ß|ss)e|mein name ist|je m'appelle|mon nom est|me llamo|mi nombre es|meu nome é|me chamo|mi chiamo|"
    r"mio nome è|mijn naam is|ik heet|jag heter|mitt namn är|jeg hedder|jeg heter|mit navn er|nimeni on|a nevem|"
    r"nazywam się|na imię|jmenuji se|volám sa|меня зовут|мене звати|με λένε|benim adım"
)
PHRASE = late(rf"(?<!\w)(?:{_PHRASES}) $", re.IGNORECASE)
PHRASE_ENDS = frozenset(
    """is was are name's me him her named called name? heiße heisse ist m'appelle est llamo es é chamo chiamo è
    heet heter är hedder er on nevem się imię se sa зовут звати λένε adım""".split()
)

_NAMES = (
    "(?:full|first|last|given|family|middle|maiden|legal|real|display|sur|fore|birth)[ _-]?name|vor(?:- und nach)?name|"
    "nachname|familienname|prénom|nom de famille|nombre completo|apellidos?|sobrenome|nome completo|cognome|imię|"
    "nazwisko|příjmení|jméno|фамилия|имя|отчество|прізвище|όνομα|επώνυμο"
)
_ROLES = (
    "authors?|maintainers?|contributors?|creator|customer|client|patient|employee|assignee|reviewers?|approver|committer|"
    "owner|manager|contact(?: person)?|recipient|sender|signatory|attendees?|participant|guest|speaker|student|teacher|"
    "passenger|cardholder|account holder|beneficiary|signed|attn|by|ansprechpartner|kunde|autora?|auteur|cliente|"
    "kontakt|contatto|автор|клиент"
)
_END = r"[\"'`*]{0,3}[ \t]{0,4}(?:[:=]|\x01|：)[ \t]{0,8}[\[({\"'`*]{0,3}$"
FIELDS = (
    (SURE, late(rf"(?<![^\W_])(?:{_NAMES}){_END}", re.IGNORECASE)),
    (LIKELY, late(rf"(?<![^\W_])(?:{_ROLES}){_END}", re.IGNORECASE)),
    (HINT, late(rf"(?<![^\W_])(?:name|naam|nom|nombre|nome|navn|namn){_END}", re.IGNORECASE)),
)
FIELD_SIGNS = frozenset(":=\x01：\"'`*[({")
YEARS = late(
    r"(?:\(c\)|©|copyright)(?: \(c\)| ©)?(?: \d{4}(?:[-–, ]{1,2}\d{4}){0,8}),?(?: by)? $",
    re.IGNORECASE,
)

ADDRESS_AFTER = late(
    r" ?<(?!(?:no-?reply|do-?not-?reply|bot|git|support|info|admin|action)[@.+-])"
    r"[\w.+%'-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}>"
)
SAID_AFTER = late(r",? (?:said|says|asked|replied|wrote|told)\b")
HINT_AFTER = late(
    r"['’]s\b|['’] |,? (?:asks|tells|writes|thinks|thought|wants|had|has|lives?|lived|will|would|is|was|shouted|"
    r"whispered|answered|spent|listed|likes|loves|needs|works|worked|mentioned|suggested|noted|reviewed|approved|"
    r"agreed|joined|left|sent|called|moved|died|married|and (?:his|her|their|i)|who|himself|herself|his|her)\b|"
    r", (?:I|you|we|can|could|please|thanks|thank|your|it|do|did|are|have|this|here)\b|さん|様|氏"
)
SPEAKER = late(r":(?: |[\"“]|\\\")\S")

FAMILY_ENDING = late(
    r"(?:sson|ssen|dottir|dóttir|[a-z]{2}sen|[a-z]{2}mann|[a-z]{2}stein|berger|feld|hauser|meier|mayer|ström|strom|qvist|"
    r"kvist|lund|gren|[a-z]{3}ov|[a-z]{2}ova|[a-z]{2}ová|[a-z]{3}ev|[a-z]{2}eva|[a-z]{2}sky|[a-z]{2}ski|wska|[a-z]ská|"
    r"skaya|cki|cka|wicz|czyk|enko|chuk|vić|[a-z]ić|[a-z]ovic|čič|č|escu|eanu|opoulos|idis|[a-z]{2}akis|shvili|adze|oglu|"
    r"oğlu|[a-zäö]{3}nen|yama|moto|mura|guchi|kawa|gawa|zaki|saki|bayashi|shima|jima|yeva|yev|ов|ова|ев|ева|ский|ская|енко|чук|όπουλος|"
    r"ίδης|άκης)$"
)
"""Endings that families have and few other words do."""
PATRONYMIC = late(r"(?:ович|евич|ьич|овна|евна|ична|івна|йович)(?!\w)")

NOBODY = frozenset(
    """the a an this that these those my your his her our its their and or not no yes if when where what who how
    why all any some each every one two three else ask see find edit list file line first other many made long
    even just are is was were be been do does did can could should would has have had for from with into via per
    nor so to in on at of by as it he she they we you i san santa saint los las new fort mount lake port inc ltd
    llc gmbh corp corporation company co foundation institute university college school bank group holdings
    limited plc ag sarl bv oy project team authors contributors developers software systems labs studio street
    avenue road airport hospital hotel island river city county state doe mustermann""".split()
)
"""Words of which no name consists, though lists of names have some of them."""
