//! Another program renames a file over a document between our last look and the exchange.

use tenure_core::Class;
use tenure_os::disk::simulated::{Call, Fault, STRANGERS, SimulatedDisk, State};

use super::site::Site;
use super::world::World;

const OLD: &[u8] = b"\"old\"";
const NEW: &str = "\"new\"";

/// The contents of all files, whatever their names.
fn contents(state: &State) -> Vec<Vec<u8>> {
    let bytes = |path| state.file(path).unwrap().unwrap().bytes.clone();
    state.paths().iter().map(|path| bytes(path)).collect()
}

#[test]
fn its_file_survives_every_kill_and_is_in_place_once_we_are_refused() {
    let site = Site::new(&["d/a.json"]);
    let text = std::str::from_utf8(OLD).unwrap();
    let disk = SimulatedDisk::new(site.start(&World::of(&[Some(text)])), Fault::Stranger);
    let refused = site.process(&disk).write(&[(0, NEW)], None).unwrap_err();
    assert_eq!(refused.class(), Class::Conflict, "{refused}");
    let document = &site.paths()[0];
    let in_place = |state: &State| state.file(document).unwrap().map(|file| file.bytes.clone());

    let operations = disk.operations();
    let exchanges = operations.iter().filter(|done| done.call == Call::Exchange);
    assert_eq!(exchanges.count(), 2, "{operations:?}");
    let came = operations
        .iter()
        .position(|done| done.call == Call::Exchange)
        .unwrap();
    for (done, state) in disk.history() {
        if done > came {
            assert!(
                contents(&state).contains(&STRANGERS.to_vec()),
                "killed after {done}"
            );
        }
        state.after_power_loss(&mut |left| {
            let whole = [OLD, NEW.as_bytes(), STRANGERS];
            let found = in_place(&left).expect("a document is always there");
            assert!(
                whole.contains(&&*found),
                "power loss after {done}: {found:?}"
            );
        });
    }
    // From here on people rely on our answer that nothing was written.
    disk.state().after_power_loss(&mut |left| {
        assert_eq!(in_place(&left).as_deref(), Some(STRANGERS));
    });
}
