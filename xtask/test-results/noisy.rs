//! Tests that print where libtest prints, for try.sh.

use std::io::Write;

/// Writes past the capturing of libtest, in pieces that rarely end a line.
fn print() {
    let pieces = [
        "simulated disk: so far ",
        "test outer::inner::never_run ... ok",
        "\nok outer::inner::never_run",
        "\nfailed ",
        "test result: ok. 99 passed; 0 failed; 0 ignored; ",
        "\nfailures:\n\n",
    ];
    for piece in pieces {
        let _ = std::io::stdout().write_all(piece.as_bytes());
        let _ = std::io::stdout().flush();
        let _ = std::io::stderr().write_all(piece.as_bytes());
    }
}

macro_rules! passing {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                super::super::print();
            }
        )*
    };
}

mod outer {
    mod inner {
        passing!(a b c d e f g h);
    }

    #[test]
    fn fails() {
        super::print();
        panic!("it fails\nok outer::inner::never_run");
    }

    #[test]
    #[should_panic]
    fn should_panic() {
        super::print();
        panic!("as it should");
    }

    #[test]
    #[should_panic]
    fn should_panic_and_does_not() {
        super::print();
    }

    #[test]
    #[should_panic(expected = "this")]
    fn should_panic_of_something_else() {
        super::print();
        panic!("that\nok outer::inner::never_run");
    }

    #[test]
    #[ignore]
    fn ignored() {}

    #[test]
    #[ignore = "for a reason"]
    fn ignored_for_a_reason() {}
}
