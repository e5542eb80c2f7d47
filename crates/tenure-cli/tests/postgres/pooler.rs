//! Behind a real pgbouncer.

use tenure_testkit::postgres::{Bouncer, Mode};

use crate::scene::{Scene, address};
use crate::world::{World, code, json, text};

#[test]
fn a_pooler_in_transaction_or_statement_mode_is_refused_with_the_reason() {
    for mode in [Mode::Transaction, Mode::Statement] {
        let scene = Scene::new();
        let bouncer = Bouncer::start(&scene.database, mode);
        let world = World::at(&address(bouncer.url()));
        for command in [
            &["run", "x", "--", "true"][..],
            &["ls"],
            &["advisory", "run", "agent", "1", "--", "true"],
        ] {
            let output = world.call(command.iter().copied());
            assert_eq!(code(&output), 78, "{mode:?} {command:?}: {output:?}");
            assert!(text(&output.stderr).contains("pool"), "{mode:?} {output:?}");
        }
        let output = world.call(["doctor", "--json"]);
        assert_eq!(code(&output), 1);
        assert!(
            !json(&output.stdout)["checks"]
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn a_pooler_in_session_mode_works() {
    let scene = Scene::new();
    let bouncer = Bouncer::start(&scene.database, Mode::Session);
    let world = World::at(&address(bouncer.url()));
    let output = world.run(["x", "--", "sh", "-c", "\"$TENURE\" ls --json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(json(&output.stdout)["held"][0]["resource"], "name:x");
}
