use std::env;
use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Place {
    directory: PathBuf,
}

impl Place {
    /// A fresh directory that is no part of a repository, removed at the end.
    fn new(name: &str) -> Self {
        let directory =
            env::temp_dir().join(format!("tenure-locate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let directory = fs::canonicalize(directory).unwrap();
        Self { directory }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    fn directory(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes the files of `git init`.
    fn git_directory(&self, path: &str) {
        self.file(&format!("{path}/HEAD"), "ref: refs/heads/main\n");
        self.directory(&format!("{path}/objects"));
        self.directory(&format!("{path}/refs"));
    }

    /// Makes the files of `git worktree add`.
    fn linked_worktree(&self, path: &str, common: &str) {
        let git_dir = self.path(&format!("{common}/worktrees/wt"));
        self.file(
            &format!("{common}/worktrees/wt/HEAD"),
            "ref: refs/heads/wt\n",
        );
        self.file(&format!("{common}/worktrees/wt/commondir"), "../..\n");
        self.file(
            &format!("{path}/.git"),
            &format!("gitdir: {}\n", git_dir.display()),
        );
    }

    fn environment(&self, path: &str) -> Environment {
        let uid = rustix::process::geteuid().as_raw();
        Environment::new(self.directory(path), uid).with("HOME", "/home/ana")
    }

    fn url(&self, path: &str) -> String {
        format!("file:{}", self.path(path).display())
    }

    /// The store of the repository with this common directory.
    fn repository_url(&self, common: &str) -> String {
        let common = self.path(common);
        format!("sqlite:{}/tenure/tenure.db", common.display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn url(environment: &Environment) -> String {
    locate(None, environment).unwrap().url
}

#[test]
fn the_flag_beats_the_variable_beats_the_file_beats_git_beats_the_user() {
    let place = Place::new("precedence");
    let environment = place.environment("repo");
    let user = locate(None, &environment).unwrap();
    assert_eq!(user.url, "sqlite:/home/ana/.local/state/tenure/tenure.db");
    assert_eq!(user.why, Why::User);

    place.git_directory("repo/.git");
    let git = locate(None, &environment).unwrap();
    assert_eq!(git.url, place.repository_url("repo/.git"));
    assert_eq!(git.why, Why::Repository(place.path("repo/.git")));

    place.file("repo/tenure.toml", "store = 'file:locks'");
    let file = locate(None, &environment).unwrap();
    assert_eq!(file.url, place.url("repo/locks"));
    assert_eq!(file.why, Why::File(place.path("repo/tenure.toml")));

    let environment = environment.with("TENURE_STORE", "file:/elsewhere");
    let variable = locate(None, &environment).unwrap();
    assert_eq!(
        (variable.url.as_str(), variable.why),
        ("file:/elsewhere", Why::Variable)
    );

    let asked = locate(Some("file:near"), &environment).unwrap();
    assert_eq!(asked.url, place.url("repo/near"));
    assert_eq!(asked.why, Why::Asked);
}

#[test]
fn the_nearest_file_counts_even_for_a_store_named_elsewhere() {
    let place = Place::new("nearest");
    place.file("tenure.toml", "wait = '1s'");
    place.file("a/tenure.toml", "wait = '2s'");
    let environment = place.environment("a/b/c").with("TENURE_STORE", "file:/x");
    let located = locate(None, &environment).unwrap();
    assert_eq!(located.config.wait, Some(std::time::Duration::from_secs(2)));
    assert_eq!(located.config_path, Some(place.path("a/tenure.toml")));
}

#[test]
fn all_worktrees_share_the_store_of_the_common_directory() {
    let place = Place::new("worktrees");
    place.git_directory("repo/.git");
    place.linked_worktree("linked", "repo/.git");
    assert_eq!(
        url(&place.environment("linked/src")),
        place.repository_url("repo/.git")
    );
    assert_eq!(
        url(&place.environment("repo/src")),
        place.repository_url("repo/.git")
    );
}

#[test]
fn relative_paths_in_a_linked_worktree_count_from_the_main_one() {
    let place = Place::new("relative");
    place.git_directory("repo/.git");
    place.linked_worktree("linked", "repo/.git");
    place.file("linked/tenure.toml", "store = 'file:.locks'");
    assert_eq!(url(&place.environment("linked")), place.url("repo/.locks"));
}

#[test]
fn a_database_named_by_a_relative_path_is_shared_by_all_worktrees() {
    let place = Place::new("database");
    place.git_directory("repo/.git");
    place.linked_worktree("linked", "repo/.git");
    place.file("linked/tenure.toml", "store = 'sqlite:.locks/l.db'");
    let expected = format!("sqlite:{}", place.path("repo/.locks/l.db").display());
    assert_eq!(url(&place.environment("linked")), expected);
}

#[test]
fn relative_paths_in_a_file_above_the_repository_count_from_the_file() {
    let place = Place::new("above");
    place.git_directory("repo/.git");
    place.file("tenure.toml", "store = 'file:.locks'");
    assert_eq!(url(&place.environment("repo")), place.url(".locks"));
}

#[test]
fn a_bare_repository_and_its_worktrees_share_a_store() {
    let place = Place::new("bare");
    place.git_directory("bare.git");
    place.linked_worktree("linked", "bare.git");
    assert_eq!(
        url(&place.environment("bare.git/hooks")),
        place.repository_url("bare.git")
    );
    assert_eq!(
        url(&place.environment("linked")),
        place.repository_url("bare.git")
    );
}

#[test]
fn a_submodule_is_a_repository_of_its_own() {
    let place = Place::new("submodule");
    place.git_directory("repo/.git");
    place.git_directory("repo/.git/modules/sub");
    place.file("repo/sub/.git", "gitdir: ../.git/modules/sub\n");
    let expected = place.repository_url("repo/.git/modules/sub");
    assert_eq!(url(&place.environment("repo/sub")), expected);
}

#[test]
fn the_variables_of_git_are_honoured() {
    let place = Place::new("variables");
    place.git_directory("repo/.git");
    place.git_directory("other/.git");
    let environment = place.environment("repo");
    let by_dir = environment.clone().with("GIT_DIR", "../other/.git");
    assert_eq!(url(&by_dir), place.repository_url("other/.git"));
    let common = place.path("other/.git").into_os_string();
    let by_common = environment.clone().with("GIT_COMMON_DIR", common);
    assert_eq!(url(&by_common), place.repository_url("other/.git"));
    let nowhere = environment.with("GIT_DIR", "nowhere");
    let error = locate(None, &nowhere).unwrap_err();
    assert_eq!(error.class(), tenure_core::Class::Configuration);
}

#[test]
fn a_dot_git_file_that_leads_nowhere_is_refused_unless_a_store_is_named() {
    let place = Place::new("broken");
    place.git_directory(".git");
    for text in ["gitdir: /nowhere/at/all\n", "nonsense\n", ""] {
        place.file("linked/.git", text);
        let environment = place.environment("linked/src");
        let error = locate(None, &environment).unwrap_err();
        assert_eq!(error.class(), tenure_core::Class::Configuration);
        assert!(error.to_string().contains("linked/.git"), "{error}");
        assert!(error.remedy().to_string().contains("git worktree repair"));
        assert!(locate(Some("file:/x"), &environment).is_ok());
    }
    place.file("linked/tenure.toml", "store = 'file:.locks'");
    assert!(locate(None, &place.environment("linked")).is_err());
    place.file("linked/tenure.toml", "store = 'file:/x'");
    assert_eq!(url(&place.environment("linked")), "file:/x");
}

#[test]
fn an_empty_dot_git_is_no_repository() {
    let place = Place::new("empty");
    place.git_directory("repo/.git");
    place.directory("repo/inner/.git");
    assert_eq!(
        url(&place.environment("repo/inner")),
        place.repository_url("repo/.git")
    );
}

#[test]
fn a_file_of_another_user_is_ignored_and_named() {
    let place = Place::new("foreign");
    place.file("tenure.toml", "store = 'file:/ours'");
    place.file("a/tenure.toml", "store = 'file:/foreign'");
    let mut environment = place.environment("a");
    environment.uid += 1;
    let located = locate(None, &environment).unwrap();
    assert_eq!(located.why, Why::User);
    let paths: Vec<_> = located
        .ignored
        .iter()
        .map(|ignored| &ignored.path)
        .collect();
    assert_eq!(
        paths,
        [&place.path("a/tenure.toml"), &place.path("tenure.toml")]
    );
}

#[test]
fn a_link_to_a_file_is_judged_by_what_it_points_to() {
    let place = Place::new("link");
    place.directory("a");
    symlink("/proc/version", place.path("a/tenure.toml")).unwrap();
    let mut environment = place.environment("a");
    environment.uid += 1;
    // /proc/version belongs to root: foreign to every other user.
    let uid = fs::metadata("/proc/version").map(|m| std::os::unix::fs::MetadataExt::uid(&m));
    assert_ne!(uid.unwrap(), environment.uid);
    assert_eq!(locate(None, &environment).unwrap().ignored.len(), 1);
}

#[test]
fn the_state_directory_follows_xdg() {
    let environment = Environment::new("/", 0).with("HOME", "/home/ana");
    let absolute = environment.clone().with("XDG_STATE_HOME", "/state");
    assert_eq!(
        state_directory(&absolute).unwrap(),
        Path::new("/state/tenure")
    );
    let home = Path::new("/home/ana/.local/state/tenure");
    assert_eq!(state_directory(&environment).unwrap(), home);
    let error = state_directory(&Environment::new("/", 0)).unwrap_err();
    assert_eq!(error.class(), tenure_core::Class::Configuration);
}

#[test]
fn a_state_directory_that_is_not_absolute_is_refused() {
    let proc = Environment::new("/", 0).with("XDG_STATE_HOME", "/proc/state");
    for (environment, name) in [
        (Environment::new("/", 0).with("HOME", "."), "HOME"),
        (
            Environment::new("/", 0)
                .with("HOME", "/home/ana")
                .with("XDG_STATE_HOME", "state"),
            "XDG_STATE_HOME",
        ),
        // Locks do not hold in /proc, so the slots are in the runtime directory.
        (proc.with("XDG_RUNTIME_DIR", "run"), "XDG_RUNTIME_DIR"),
    ] {
        let error = slots(&environment).unwrap_err();
        assert_eq!(error.class(), tenure_core::Class::Configuration);
        assert!(error.to_string().contains(name), "{error}");
        assert!(
            error.remedy().to_string().contains(name),
            "{}",
            error.remedy()
        );
    }
}

#[test]
fn empty_variables_count_as_not_set() {
    let place = Place::new("unset");
    let environment = place.environment("a").with("TENURE_STORE", "");
    assert_eq!(locate(None, &environment).unwrap().why, Why::User);
}

#[test]
fn slots_are_in_the_state_directory_whatever_the_store() {
    let place = Place::new("slots");
    place.git_directory("repo/.git");
    place.file(
        "repo/tenure.toml",
        "store = 'file:locks'\ntrust_flock = true",
    );
    let state = place.path("not/there/yet");
    let environment = place
        .environment("repo")
        .with("XDG_STATE_HOME", &state)
        .with("XDG_RUNTIME_DIR", "/run/user/7")
        .with("TENURE_STORE", "file:/elsewhere")
        .with("TENURE_TRUST_FLOCK", "1");
    let expected = format!("sqlite:{}/tenure/slots.db", state.display());
    assert_eq!(slots(&environment).unwrap(), expected);
}

#[test]
fn slots_are_in_the_runtime_directory_where_locks_do_not_hold_in_the_state_directory() {
    // The file system of /proc is not one where locks are known to hold.
    assert!(!filesystem::of(Path::new("/proc")).unwrap().trusted);
    let environment = Environment::new("/", 0).with("XDG_STATE_HOME", "/proc/state");
    let with = |runtime: &str| {
        let environment = environment.clone().with("XDG_RUNTIME_DIR", runtime);
        slots(&environment).unwrap()
    };
    assert_eq!(with("/run/user/7"), "sqlite:/run/user/7/tenure/slots.db");
    assert_eq!(with(""), "sqlite:/proc/state/tenure/slots.db");
}

/// The store of a repository in the state directory.
fn user_url(place: &Place, name: &str) -> String {
    use std::os::unix::ffi::OsStrExt;
    let common = place.path(&format!("{name}/.git"));
    let hash = tenure_files::document::Version::of(common.as_os_str().as_bytes()).to_string();
    let directory = format!("{name}-{}", &hash[..16]);
    format!("sqlite:/home/ana/.local/state/tenure/repositories/{directory}/tenure.db")
}

#[test]
fn the_store_of_the_user_is_the_same_for_all_worktrees_however_it_is_named() {
    let place = Place::new("user");
    place.git_directory("repo/.git");
    place.linked_worktree("linked", "repo/.git");
    let expected = user_url(&place, "repo");
    place.file("repo/tenure.toml", "store = 'user:'");
    for directory in ["repo", "repo/src", "linked/src"] {
        let environment = place.environment(directory);
        let located = locate(None, &environment).unwrap();
        assert_eq!((located.url, located.is_user), (expected.clone(), true));
        let variable = environment.clone().with("TENURE_STORE", "user:");
        assert_eq!(url(&variable), expected);
        let board = board(&environment.with("TENURE_STORE", "file:/elsewhere")).unwrap();
        let beside = expected.strip_prefix("sqlite:").unwrap();
        let beside = Path::new(beside).with_file_name("board");
        assert_eq!(board, beside, "whatever the variable");
    }
    place.git_directory("other/.git");
    let other = locate(Some("user:"), &place.environment("other")).unwrap();
    assert_eq!(other.url, user_url(&place, "other"));
    // The variable alone does not move the board.
    let environment = place.environment("other").with("TENURE_STORE", "user:");
    let expected = place.path("other/.git/tenure/board");
    assert_eq!(board(&environment).unwrap(), expected);
}

#[test]
fn outside_of_a_repository_the_store_of_the_user_is_the_ordinary_one() {
    let place = Place::new("user-outside");
    let located = locate(Some("user:"), &place.environment("a")).unwrap();
    assert_eq!(
        located.url,
        "sqlite:/home/ana/.local/state/tenure/tenure.db"
    );
    let error = locate(Some("user:x"), &place.environment("a")).unwrap_err();
    assert_eq!(error.class(), tenure_core::Class::Configuration);
}

#[test]
fn the_file_of_the_main_worktree_counts_in_linked_ones_unless_they_have_their_own() {
    let place = Place::new("main-file");
    place.git_directory("repo/.git");
    place.linked_worktree("linked", "repo/.git");
    place.file("tenure.toml", "store = 'file:/above'");
    place.file("repo/tenure.toml", "store = 'file:/main'");
    assert_eq!(url(&place.environment("linked/src")), "file:/main");
    place.file("linked/tenure.toml", "store = 'file:/own'");
    assert_eq!(url(&place.environment("linked/src")), "file:/own");
}

#[test]
fn a_file_that_names_no_store_leaves_it_to_the_main_worktree_and_the_root_of_the_repository() {
    let place = Place::new("no-store");
    place.git_directory("repo/.git");
    place.linked_worktree("linked", "repo/.git");
    place.file("tenure.toml", "store = 'file:/above'");
    for own in [
        "repo/tenure.toml",
        "linked/tenure.toml",
        "repo/deep/tenure.toml",
    ] {
        place.file(own, "[slot]\nbuild = 2\n");
    }
    let of = |directory: &str| locate(None, &place.environment(directory)).unwrap();
    for directory in ["repo", "repo/deep", "linked/src"] {
        assert_eq!(of(directory).url, place.repository_url("repo/.git"));
    }
    place.file("repo/tenure.toml", "store = 'user:'\n[slot]\nbuild = 2\n");
    for directory in ["repo", "repo/deep", "linked", "linked/src"] {
        let located = of(directory);
        assert_eq!(located.url, user_url(&place, "repo"), "{directory}");
        assert_eq!(located.why, Why::File(place.path("repo/tenure.toml")));
        assert_eq!(located.config.slot["build"], 2);
    }
    // The settings are still those of the nearest file.
    let own = place.path("linked/tenure.toml");
    assert_eq!(of("linked/src").config_path, Some(own));
}

#[test]
fn a_repository_inside_of_another_shares_the_store_that_the_outer_one_names() {
    let place = Place::new("nested-user");
    place.git_directory("repo/.git");
    place.git_directory("repo/vendor/.git");
    place.file("repo/tenure.toml", "store = 'user:'");
    let inner = place.environment("repo/vendor/src");
    assert_eq!(url(&inner), user_url(&place, "repo"));
    assert_eq!(
        board(&inner).unwrap(),
        board(&place.environment("repo")).unwrap()
    );
    // A file above all repositories counts for each of them.
    place.git_directory("other/.git");
    place.file("tenure.toml", "store = 'user:'");
    assert_eq!(url(&place.environment("other")), user_url(&place, "other"));
}
