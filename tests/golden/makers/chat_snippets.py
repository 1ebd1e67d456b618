"""Small templates that use one construct of Jinja each, and the variables that they read."""

kVariables = {
    "a": 7, "b": 3, "f": 2.5, "neg": -7, "yes": True, "no": False, "nothing": None, "empty": "", "zero": 0,
    "text": "Hello, World! it's", "space": " \t x y  z \n", "uni": "Stra\u00dfe \u01c4 \u03a3\u038c\u03a3 \u4e2d\u6587 \U0001f600 e\u0301",
    "lines": "one\ntwo\r\nthree\n\nfive\u2028six", "quote": "it's \"so\" \\ \n\x07\u00a0\u200b",
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, [2, "x"]], {"k": [True, None, 1.5]}],
    "dict": {"name": "N", "items": "I", "n": {"x": 1, "y": [1, 2]}, "b": 2, "A": 1},
    "users": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []}, {"name": "Cy", "age": 31}],
    "html": "<a href='x'>\"&\"</a>", "numbers": [1, 2, 3, 4, 5, 6, 7], "json": {"b": [1, 2.0, 1e20, 1e-7], "a": {"\u00e9": "\u4e2d\n\"\\\x01\x7f"}, "e": [], "d": {}},
    "tree": [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": [{"n": 4, "c": []}]}]}, {"n": 5, "c": []}],
}

kExpressions = r"""
a + b
a - b * 2
a / b
a // b
neg // b
neg % b
a % neg
f % 2
neg % f
1e3
1.5e-5
1e16
123456789012345680.0
0.1 + 0.2
1/3
100.0
-0.0
1_000
+a
a / 0
7 // 2.0
'x' * 3
3 * 'ab'
'ab' * -1
list * 2
[1] + [2]
(1, 2) + (3,)
list + text
text + 1
text ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'a']
missing
missing.x
missing ~ 'x'
missing + 1
missing == missing
missing is defined
dict.missing is defined
dict.missing
dict.missing.deeper
not missing
missing or 'other'
missing and 'other'
list[0]
list[-1]
list[7]
list['x']
list[1:]
list[::-1]
list[-2:]
list[:-1]
list[5:]
list[1:0]
numbers[1:6:2]
numbers[::-2]
numbers[5:1:-1]
numbers[-3:-1]
text[0]
text[-3:]
text[::-1]
uni[0:9]
uni[-1]
uni[9]
(1, 2, 3)[1]
'abc'[5]
dict['name']
dict.name
dict.items
dict['items']
dict.items() | list
dict.keys() | list
dict.values() | list
dict.get('name')
dict.get('zzz')
dict.get('zzz', 5)
dict.n.y[1]
dict.keys()
dict.values()
dict.items()
dict['zzz']
'name' in dict
'zzz' in dict
1 in list
'1' in list
'World' in text
'' in text
1 in 'text'
none in [none]
3 not in list
not 3 in list
1 < 2 < 3
1 < 2 > 5
1 == 1.0
1 == true
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
(1, 2) == [1, 2]
{'a': 1} == {'a': 1.0}
none == none
none is none
1 != 2
1 >= 1
'x' if a > b else 'y'
'x' if a < b
('x' if a < b) is defined
'a' if no else 'b' if no else 'c'
yes and no
yes or no
a and b
zero or empty or 'last'
not a
not not a
true
none
None
True
[true, none, 1, 1.0, 'x', "it's"]
{'a': [1, {'b': none}], 2: (1,), none: ()}
(1,)
()
[]
{}
'a' 'b'
'\n\t\\\'\"\x41\u00e9\U0001f600\q'
"it's"
quote
[quote]
[uni]
nested
range(3)
range(3) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
range(0, 10, 2)
range(0)
range(200000)
range(3)[1]
range(3) | length
range('x')
dict(a=1, b='x')
dict(users[0], z=1)
namespace(a=1).a
namespace({'a': 5}).a
namespace(_a=1)
text.upper()
text.lower()
text.title()
text.capitalize()
uni.upper()
uni.lower()
uni.title()
uni.capitalize()
'\u03a3'.lower()
'\u0391\u03a3'.lower()
'\u0391\u03a3\u0391'.lower()
'\ufb01x'.upper()
space.strip()
space.lstrip()
space.rstrip()
space.strip(' \n')
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
'\u4e2d\u6587a'.lstrip('\u6587\u4e2d')
text.split()
text.split(',')
text.split('o', 1)
space.split()
space.split(none, 1)
text.rsplit('o', 1)
text.rsplit('o')
text.split('')
''.split()
''.split(',')
text.split(maxsplit=1)
lines.splitlines()
text.startswith('Hello')
text.startswith(('x', 'H'))
text.endswith("it's")
text.endswith(('x', 's'))
text.startswith(['H'])
text.replace('o', '0')
text.replace('o', '0', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'aaa'.replace('aa', 'b')
text.index('zzz')
', '.join(words)
', '.join(list)
''.join([])
'{} and {}'.format(1, 'x')
'{1}{0}{name}'.format(1, 'x', name=2.5)
'{}'.format()
'%s' % list
'%s' % 'x'
'%s %s' % ('x',)
'%s' % ('x', 'y')
'%s is %d%%' % ('a', 3)
'<|image_{i:d}|>{:d}'.format(true, i=2)
'{:d}'.format(2.5)
'%d' % 3.9
'%d' % 'x'
text.append
list.append
list.append(1)
dict.update({'a': 1})
dict.pop('name')
list.index(9)
''.__class__
dict.__class__
a.b
a()
missing()
text()
none.x
none[0]
1 is number
true is number
'x' is string
list is sequence
dict is mapping
dict is sequence
list is iterable
1 is iterable
missing is iterable
missing is sequence
text is iterable
none is none
1 is integer
true is integer
1.0 is float
true is boolean
true is true
1 is true
false is false
3 is odd
4 is even
1 is eq 1
1 is equalto(2)
1 is ne 2
2 is gt 1
2 is lessthan 1
2 is le 2
2 is in [1, 2]
'a' is in 'abc'
range is callable
text is callable
1 is not odd
missing is not defined
missing is undefined
1 is nosuch
text | upper
text | lower | capitalize
text | title
"hello wORLD-foo bar(baz" | title
space | trim
'xxhixx' | trim('x')
text | length
uni | length
list | length
dict | count
missing | length
5 | length
text | replace('o', '0')
text | replace('o', '0', 1)
5 | replace(5, 6)
missing | default('d')
empty | default('d')
empty | default('d', true)
none | d('x')
missing | default
list | first
list | last
[] | first
'' | last
missing | first
dict | first
dict | last
text | first
list | join
list | join(', ')
users | join('; ', attribute='name')
text | join('-')
missing | join
list | sort
[none, none] | sort
[{'a': 1}, {'a': 2}] | sort(attribute='b') | length
[{'a': 1}, {'a': 1}] | sort | length
-5 | string | length
list | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | join(',')
[1, 'a'] | sort
list | reverse | list
text | reverse
words | unique | list
words | unique(case_sensitive=true) | list
users | map(attribute='age') | unique | list
['a'] | sum
users | map(attribute='name') | list
users | map(attribute='tags', default='none') | list
users | map(attribute='tags.0') | list
words | map('upper') | list
words | map('replace', 'a', 'x') | list
words | map | list
users | selectattr('tags') | map(attribute='name') | list
users | selectattr('age', 'equalto', 31) | map(attribute='name') | list
users | selectattr('age', '>', 26) | map(attribute='name') | list
users | rejectattr('age', 'eq', 31) | map(attribute='name') | list
users | selectattr('name', 'in', ['bob', 'Cy']) | list | length
numbers | select('odd') | list
numbers | reject('odd') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
numbers | select('nosuch') | list
(numbers | select('odd')) is iterable
numbers | select('odd') | length
(numbers | select('gt', 100)) and 'true'
(numbers | select('odd'))[0]
numbers | select('odd') | first
dict | dictsort
dict | dictsort(true)
{'b': 1, 'a': 2} | dictsort(by='value')
{'b': 1, 'a': 2} | dictsort(reverse=true)
dict | items | list
missing | items | list
5 | items | list
text | list
dict | list
5 | list
5 | string
[1, 'a'] | string
none | string
missing | string
'42' | int
' 42 ' | int
'42.9' | int
'x' | int
'x' | int(5)
'-1_000' | int
3.9 | int
-3.9 | int
none | int
true | int
missing | int
'1e3' | int
'3.5' | float
'x' | float
'x' | float(1.5)
3 | float
'inf' | float
'x' | abs
text | indent
lines | indent
lines | indent(2, true)
lines | indent(2, blank=true)
lines | indent('> ', first=true)
'%s %s' | format('a', 1)
html | escape
html | e
html | safe
json | tojson
json | tojson(indent=2)
json | tojson(indent=0)
json | tojson(indent='\t')
json | tojson(ensure_ascii=true)
json | tojson(sort_keys=true)
json | tojson(separators=(',', ':'))
nested | tojson
(1, 2) | tojson
text | tojson
none | tojson
missing | tojson
{1: 2, true: 3, none: 4, 1.5: 5} | tojson
[] | tojson(indent=4)
[[], {}] | tojson(indent=4)
text | nosuch
text | upper.foo
users[0] | attr('name')
strftime_now('%d %b %Y')
strftime_now('%Y-%m-%d %H:%M:%S %A %B %-d %j')
strftime_now('')
raise_exception('no: ' ~ a)
raise_exception()
[1, 2, 3] | map('string') | join('+') | length
(a, b)
a, b
text.split(',')[1].strip().upper()
not a == b
a == 7 and b == 3 or no
1 + 2 ~ 3 + 4
2 * 3 ~ 4
'a' ~ 'b' == 'ab'
[1, 2,]
{'a': 1,}
dict.n | tojson
[list, list] == [list, list]
users | map(attribute='name') | map('lower') | sort | join(' ')
1 if true else 2 | string
x.y.z
loop
self
varargs
caller
lipsum()
1 is odd and 2 is even
'%c' % 'x'
'%s' % none
'%s' % (none,)
'%s' % missing
1.0 | string
1e22
123456789.123456789
5 // 0
5 % 0
0.0 == -0.0
9223372036854775807
9007199254740993 + 0.0
'a' * 0
dict.n.x.y
""".strip("\n").split("\n")

kStatements = [
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}|{{ x }}|{{ loop.nextitem }};{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in list if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% else %}none{% endfor %}",
    "{% for x in list if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in dict %}{{ k }};{% endfor %}",
    "{% for (k, v), w in [((1, 2), 3)] %}{{ k }}{{ v }}{{ w }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for c in 'a\u4e2d\U0001f600' %}[{{ c }}]{% endfor %}",
    "{% for x in 5 %}{% endfor %}",
    "{% for x in numbers %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% break %}{% else %}none{% endfor %}",
    "{% for x in list %}{{ loop(list) }}{% endfor %}",
    "{% set x = 0 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{{ ns.y is defined }}{% set ns.y = 1 %}{{ ns.y }}{{ ns is mapping }}",
    "{% set ns = namespace() %}{% set ns._y = 1 %}",
    "{% set dict.x = 1 %}",
    "{% set missing.x = 1 %}",
    "{% if no %}{% set q = 1 %}{% endif %}{{ q is defined }}{% if yes %}{% set q = 2 %}{% endif %}{{ q }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x, y = [1] %}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x %}  block {{ a }} {% endset %}[{{ x }}]",
    "{% set x | upper | trim %}  block {% endset %}[{{ x }}]",
    "{% set x %}{% set inner = 1 %}{% endset %}{{ inner is defined }}",
    "{% filter upper %}abc {{ text }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}banana{% endfilter %}",
    "{% macro m(x, y='d', z=none) %}[{{ x }}{{ y }}{{ z }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(y=5, x=6) }}{{ m() }}{{ m(1, z=3) }}",
    "{% macro m(x) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(x) %}{% endmacro %}{{ m(q=2) }}",
    "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
    "{% macro m() %}{{ a }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro m() %}{% set a = 100 %}{{ a }}{% endmacro %}{{ m() }}{{ a }}",
    "{% macro m(x) %}<{{ caller() }}>{% endmacro %}{% call m(1) %}in{{ a }}{% endcall %}",
    "{% macro m() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(v) m() %}[{{ v }}]{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m() %}{% endmacro %}{{ m.name }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[4]) }}{{ m(**{'x': 5}) }}",
    "{% macro outer() %}{% macro inner() %}I{{ a }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}",
    "{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% for i in list %}{% for j in list %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in list %}{% set outer = loop %}{% for j in list %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% if a > b %}x{% elif a == b %}y{% else %}z{% endif %}",
    "{% if a, b %}x{% endif %}",
    "{% if 'x' if yes else 'y' %}x{% endif %}",
    "{% if missing %}x{% elif missing2 %}y{% endif %}",
    "{% generation %}abc{% set g = 1 %}{% endgeneration %}{{ g is defined }}",
    "{% raw %}{{ not }} {% this %}{% endraw %}",
    "  {% raw %}\n {{ x }} \n {% endraw %}\n  y",
    "a {%- raw -%} \n x {%- endraw -%} \n b",
    "a {# comment #} b {#- c -#} d {#\nmulti\n#}\ne",
    "  {# lstrip #}\n  x\n",
    "  {% if yes %}\n    x\n  {% endif %}\n  y",
    "  {%+ if yes %}\n    x\n  {%+ endif %}\n  y",
    "x  {% if yes %}\n    x\n  y {% endif %}\n  y",
    "  {%- if yes -%}  \n    x  {%- endif -%}  \n  y",
    "{% if yes +%}\nx{% endif +%}\ny",
    "  {{ a }}\n  {{- b }}\n  {{ a -}}  \n  x",
    "{{ a }}\n{{ b }}\n\n",
    "trailing\n",
    "trailing\n\n",
    "win\r\nlines\rmixed\n{{ a }}\r\n",
    "{{ 'a\r\nb' }}",
    "{% set x = 1 %}\n\n{% set y = 2 %}\nend",
    "\n  {% set x = 1 %}  \nend",
    "{% if yes %}\n  {% if yes %}\nx\n  {% endif %}\n{% endif %}\ny",
    "\u00a0{% if yes %}x{% endif %}",
    "\u00a0\n\u00a0{% if yes %}x{% endif %}",
    "{{ '{{' }}{{ '}}' }}{{ '{%' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{{'a': 1}['a']}}",
    "{{ [1, 2][0] }}{{ list[0:2][1] }}",
    "a{b}c{ {d} }",
    "{", "{ {", "}}", "%}", "#}",
    "{{", "{%", "{#", "{{ a", "{% if a", "{{ a }", "{{ 'a }}", "{{ a b }}", "{{ }}", "{% %}",
    "{% if %}{% endif %}", "{% if a %}", "{% for x in list %}", "{% endif %}", "{% else %}", "{% nosuch %}",
    "{% for x list %}{% endfor %}", "{% set %}", "{% set 5 = 1 %}", "{% set true = 1 %}", "{{ a. }}", "{{ a[ }}", "{{ (a }}", "{{ a) }}", "{{ [a} }}",
    "{{ a | }}", "{{ a is }}", "{{ a is odd is even }}", "{{ 1 + }}", "{{ ; }}", "{{ a ? b }}", "{{ a $ b }}",
    "{% break %}", "{% continue %}", "{% endfor %}", "{% macro %}{% endmacro %}", "{% macro m(x=1, y) %}{% endmacro %}",
    "{{ f(x=1, 2) }}", "{{ dict(a=1, **{'b': 2}) }}",
    "{% call 5 %}{% endcall %}", "{% filter %}{% endfilter %}", "{% raw %}x", "{% if a: %}x{% endif %}",
    "{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% set x = users | selectattr('age', 'eq', 31) %}{% for u in x %}{{ u.name }}{% endfor %}|{% for u in x %}{{ u.name }}{% endfor %}",
    "{% for u in users | sort(attribute='name') %}{{ u.name }}{% endfor %}",
    "{% for i in list %}{% if loop.first %}{% set seen = i %}{% endif %}{{ seen }}{% endfor %}{{ seen is defined }}",
    "{{ messages is defined }}{{ text }}{% set text = 'new' %}{{ text }}",
    "{% macro show(x) %}{% for k, v in x | items %}{{ k }}:{% if v is mapping %}({{ show(v) }}){% else %}{{ v }}{% endif %};{% endfor %}{% endmacro %}{{ show(dict) }}",
    "{% set x = 'a' %}{% set x = x ~ 'b' %}{{ x }}{% for _ in range(2) %}{% set x = x ~ 'c' %}{{ x }}{% endfor %}{{ x }}",
    "{% for x in list -%}\n  {{ x }},\n{%- endfor %}",
    "{% if a %}{% elif b %}{% endif %}{% if not a %}{% else %}e{% endif %}",
    "{%if a%}x{%endif%}{%-if a-%} y {%-endif-%}",
    "{{-a-}}{{- 'x' -}}{{ -1 }}{{ - 1 }}{{--1}}",
    "{{ 'a' 'b'\n 'c' }}",
    "{% set a.b = 1 %}",
    "{% for x in list %}{% set loop = 5 %}{{ loop }}{% endfor %}",
    "{{ namespace() }}", "{{ range }}", "{{ text.upper }}",
    # Names that a body gives a value later, at its own level, are undefined in the bodies inside it until then.
    "{% for m in [1] %}{{ f }}{% endfor %}{% set f = 1 %}{{ f }}",
    "{% for m in [1] %}{{ f }}{% endfor %}{% if true %}{% set f = 1 %}{% endif %}{{ f }}",
    "{% for m in [1] %}{{ f }}{% endfor %}{% if f %}{% set f = 1 %}{% endif %}{% set f = 3 %}{{ f }}",
    "{% for m in [1] %}{{ f }}{% endfor %}{% macro f() %}{% endmacro %}",
    "{% for m in [1] %}{{ f }}{% endfor %}{% set f, g = 2, 1 %}{{ f }}",
    "{% for m in [1] %}{{ f }}{% endfor %}{% set f = f + 1 %}{{ f }}",
    "{% for m in [1] if f %}{{ m }}{% endfor %}{% set f = 1 %}",
    "{% for m in [] %}{% else %}{% for k in [1] %}{{ f }}{% endfor %}{% set f = 1 %}{{ f }}{% endfor %}",
    "{% for i in [1, 2] %}{% for m in [1] %}{{ f }}{% endfor %}{% set f = i %}{{ f }}{% endfor %}",
    "{% for i in [1, 2] %}{% for m in [1] %}{{ f }}{% endfor %}{% set f = i %}{{ f }}{% endfor %}{{ f }}",
    "{% for f in [1, 2] %}{% for k in [1] %}{{ f }}{% endfor %}{% set f = 5 %}{{ f }}{% endfor %}{{ f }}",
    "{% macro g(a=f) %}{{ a }}{{ f }}{% endmacro %}{{ g() }}{% set f = 1 %}{{ g() }}",
    "{% macro c() %}{{ caller(f) }}{% endmacro %}{% call(x) c() %}{{ f }}{{ x }}{% endcall %}{% set f = 1 %}",
    "{% filter upper %}{{ f }}{% endfilter %}{% set f = 1 %}",
    "{% set x %}{% for i in [1] %}{{ f }}{% endfor %}{% set f = 1 %}{{ f }}{% endset %}{{ x }}{% set f = 2 %}",
    "{% for m in [1] %}{{ f is defined }}{% endfor %}{% set ns = namespace() %}{% set ns.f = 1 %}{% set f = 2 %}",
]


def snippets() -> list:
    return ["{{ " + expression + " }}" for expression in kExpressions] + kStatements
