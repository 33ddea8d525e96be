"""Go and Rust are sabotaged in the bodies of functions, and still compile."""

from __future__ import annotations

from segue.proof.sabotage import sabotage

GO = """package calc

type Shape interface {
	Area(x struct{}) int
}

func init() {
	prepare()
}

func One() int { return 1 }

func Add(
	a int,
	b interface{},
) map[string]int { // a comment
	return map[string]int{
		"a": a,
	}
}

func (s *Square) Area(x struct{}) int {
	return 1
}
"""
RUST = """pub trait Shape {
    fn area(&self) -> i32;
}

pub const fn fixed() -> i32 {
    1
}

impl<T> Shape for Square<T>
where
    T: Copy,
{
    fn area(&self) -> i32 {
        Point { x: 1 }.x
    }
}

pub fn one<T>(value: T) -> i32
where
    T: Copy,
{
    1
}

pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }
}
"""


def _broken_lines(path: str, text: str) -> list[str]:
    broken = sabotage({path: ("", text)})[path].decode()
    assert broken.count("\n") == text.count("\n")
    return [line.strip() for line in broken.splitlines() if "sabotaged" in line]


def test_every_function_of_go_panics() -> None:
    panic = 'if true { panic("sabotaged by Segue") }'
    assert _broken_lines("calc.go", GO) == [
        f"func One() int {{ {panic}; return 1 }}",
        f") map[string]int {{ {panic} // a comment",
        f"func (s *Square) Area(x struct{{}}) int {{ {panic}",
    ]


def test_a_file_of_go_without_functions_panics_when_it_is_loaded() -> None:
    broken = sabotage({"calc.go": ("", "package calc\n\nvar One = 1\n")})["calc.go"].decode()
    assert broken.endswith('func init() { panic("sabotaged by Segue") }\n')


def test_every_function_of_rust_panics_but_tests_and_constants() -> None:
    panic = 'if true { panic!("sabotaged by Segue") }'
    assert _broken_lines("src/lib.rs", RUST) == [
        f"fn area(&self) -> i32 {{ {panic}",
        f"{{ {panic}",
        f"pub fn add(a: i32, b: i32) -> i32 {{ {panic}; a + b }}",
    ]
