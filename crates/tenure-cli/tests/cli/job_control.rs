//! A terminal with a shell that has job control, as a person at a keyboard sees it.

use crate::holder::Holder;
use crate::terminal::Terminal;
use crate::world::{World, until};

#[test]
fn the_command_reads_from_the_terminal_and_ctrl_c_reaches_it() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    // The shell itself reads: dash loses an interrupt that comes while it starts a process.
    terminal
        .press("\"$TENURE\" run x -- sh -c 'read line; echo \"got <$line>\"; exec sleep 300'\n");
    until("it is held", || !world.is_free("x"));
    terminal.press("hello\n");
    terminal.expect("got <hello>");
    terminal.press("\x03");
    until("it is free", || world.is_free("x"));
    terminal.press("echo code=$?.\n");
    terminal.expect("code=130.");
    // The shell has the terminal again.
    terminal.press("echo still $((40+2))\n");
    terminal.expect("still 42");
}

#[test]
fn a_command_asks_on_the_terminal_though_its_input_and_output_are_elsewhere() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal.press(
        "\"$TENURE\" run x -- sh -c 'read a </dev/tty; echo \"got <$a>\" >/dev/tty' \
         </dev/null >/dev/null 2>&1\n",
    );
    until("it is held", || !world.is_free("x"));
    terminal.press("hello\n");
    terminal.expect("got <hello>");
    until("it is free", || world.is_free("x"));
}

#[test]
fn the_rest_of_a_pipeline_keeps_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    let gate = world.path("gate");
    // The last command of the pipeline reads from the terminal, as a pager does.
    terminal.press(&format!(
        "\"$TENURE\" run x -- sh -c 'echo out; until [ -e {} ]; do sleep 0.02; done' | \
         {{ read a; read b </dev/tty; echo \"<$a> <$b>\"; }}\n",
        gate.display()
    ));
    until("it is held", || !world.is_free("x"));
    terminal.press("key\n");
    terminal.expect("<out> <key>");
    std::fs::write(&gate, "").unwrap();
    until("it is free", || world.is_free("x"));
}

#[test]
fn ctrl_c_ends_the_loop_around_it() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal.press("for i in 1 2 3; do \"$TENURE\" run x -- sleep 300; echo round $i over; done\n");
    until("it is held", || !world.is_free("x"));
    terminal.press("\x03");
    until("it is free", || world.is_free("x"));
    terminal.press("echo after $((40+2))\n");
    terminal.expect("after 42");
    assert!(
        !terminal.screen().contains("round 1 over\r"),
        "{}",
        terminal.screen()
    );
    assert!(world.is_free("x"));
}

#[test]
fn ctrl_c_leaves_no_session_behind() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" run x -- sleep 300\n");
    until("it is held", || !world.is_free("x"));
    terminal.press("\x03");
    terminal.press("echo af\"\"ter\n");
    terminal.expect("after");
    assert_eq!(world.sessions(), 0, "run ended its session before itself");
}

#[test]
fn a_background_job_that_reads_is_stopped_and_goes_on_in_the_foreground() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" run x -- sh -c 'read a; echo \"got <$a>\"' &\n");
    until("it is held", || !world.is_free("x"));
    until("the job is stopped", || {
        terminal.press("jobs\n");
        terminal.screen().contains("Stopped")
    });
    terminal.press("fg\n");
    terminal.press("hello\n");
    terminal.expect("got <hello>");
    until("it is free", || world.is_free("x"));
}

#[test]
fn ctrl_z_stops_the_job_keeps_the_lock_and_fg_goes_on() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal
        .press("\"$TENURE\" run x -- sh -c 'echo be\"\"gun; read line; echo \"got <$line>\"'\n");
    terminal.expect("begun");
    for _ in 0..2 {
        terminal.press("\x1a");
        terminal.expect("Stopped");
        terminal.press("echo at the sh\"\"ell\n");
        terminal.expect("at the shell");
        assert!(!world.is_free("x"), "a stopped command is still protected");
        terminal.press("fg; echo code=$?.\n");
        terminal.expect("fg; echo");
    }
    terminal.press("hello\n");
    terminal.expect("got <hello>");
    terminal.expect("code=0.");
    assert!(world.is_free("x"));
}

#[test]
fn a_stopped_job_goes_on_in_the_background_and_comes_back() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    // The loop starts no process: a shell that is stopped between vfork and exec of a child is
    // never seen to stop.
    let script = "echo be\"\"gun; while [ ! -e go ]; do :; done; echo go\"\"ne; read line; echo \"got <$line>\"";
    terminal.press(&format!("\"$TENURE\" run x -- sh -c '{script}'\n"));
    terminal.expect("begun");
    terminal.press("\x1a");
    terminal.expect("Stopped");
    terminal.press("bg\n");
    terminal.press("echo at the sh\"\"ell\n");
    terminal.expect("at the shell");
    std::fs::write(world.path("go"), "").unwrap();
    terminal.expect("gone");
    terminal.press("fg\n");
    terminal.press("hello\n");
    terminal.expect("got <hello>");
    until("the lock is free", || world.is_free("x"));
}

#[test]
fn a_command_that_cannot_start_leaves_the_terminal_to_the_shell() {
    let world = World::new();
    let mut terminal = Terminal::open(&world);
    terminal.press("\"$TENURE\" run x -- no-such-command; echo code=$?.\n");
    terminal.expect("code=127.");
    terminal.press("echo still $((40+2))\n");
    terminal.expect("still 42");
}

#[test]
fn a_wait_is_one_live_line_cut_to_the_width_and_erased_at_the_end() {
    let world = World::new();
    let mut holder = Holder::start(
        &world,
        ["--purpose", "a long reason to hold it for a long time", "x"],
    );
    let mut terminal = Terminal::open(&world);
    terminal.press("clear; \"$TENURE\" run x -- echo mi\"\"ne\n");
    terminal.expect("waiting for name:x (write)");
    terminal.expect("waiting for name:x (write)");
    holder.let_go();
    terminal.expect("\r\u{1b}[K");
    terminal.expect("mine");
    let screen = terminal.screen();
    let drawn = screen.split("\r\u{1b}[K\u{1b}[33m").nth(1).unwrap();
    let line = drawn.split("\u{1b}[0m").next().unwrap();
    assert_eq!(line.chars().count(), 59, "{line:?}");
    assert!(line.ends_with('…'));
}
