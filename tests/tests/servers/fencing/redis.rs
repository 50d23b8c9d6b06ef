//! The guard for data in Redis.

use redlock_runtime::fence::redis::{GUARD, GUARDED, STALE};
use redlock_tests::{
    Server,
    redis::{Client, Connection, FromRedisValue, RedisError, Script, cmd},
};

use super::stores::{Session, Stale, Store, keeps_late_holders_out};

const FENCE: &str = "{stock}:fence";
const DATA: &str = "{stock}";

keeps_late_holders_out!(Server::start());

#[test]
fn a_command_may_have_several_keys_and_no_arguments() {
    let server = Server::start();
    let mut connection = server.connect();
    let run = |connection: &mut Connection, words: &[&str]| {
        let script = Script::new(GUARDED);
        let mut call = script.prepare_invoke();
        call.key(FENCE).key("{stock}1").key("{stock}2").arg(7);
        for word in words {
            call.arg(*word);
        }
        call.invoke::<Vec<Option<String>>>(connection)
    };
    server.command(&["SET", "{stock}1", "one"]);
    server.command(&["SET", "{stock}2", "two"]);
    assert_eq!(
        run(&mut connection, &["MGET"]).unwrap(),
        ["one", "two"].map(|value| Some(value.to_owned()))
    );
    // The token was raised once, and stays at the largest.
    assert_eq!(server.get(FENCE).as_deref(), Some("7"));
}

#[test]
fn tokens_of_any_length_are_compared_as_numbers() {
    let server = Server::start();
    let mut connection = server.connect();
    let mut get = |token: u64| guarded::<Option<i64>>(&mut connection, token, &["GET"]);
    let largest = 1 << 53;
    for token in [9, 10, 1_790_000_000_000_000, largest] {
        assert_eq!(get(token), Ok(None));
        assert_eq!(get(token - 1), Err(Stale));
        assert_eq!(server.get(FENCE), Some(token.to_string()));
    }
}

#[test]
fn the_head_of_a_script_keeps_its_rest_from_running() {
    let server = Server::start();
    let mut connection = server.connect();
    let script = Script::new(&format!(
        "{GUARD} redis.call('RPUSH', KEYS[2], 'a') return redis.call('RPUSH', KEYS[2], 'b')"
    ));
    let mut push = |token: u64| -> Result<usize, Stale> {
        let result = script
            .key(FENCE)
            .key(DATA)
            .arg(token)
            .invoke(&mut connection);
        result.map_err(stale)
    };
    assert_eq!(push(5), Ok(2));
    assert_eq!(push(4), Err(Stale));
    assert_eq!(push(5), Ok(4));
}

#[test]
fn what_is_no_token_is_refused() {
    let server = Server::start();
    for word in ["", "token"] {
        let answer = server.try_command(&["EVAL", GUARDED, "2", FENCE, DATA, word, "SET", "1"]);
        assert!(answer.is_err(), "{word:?}");
    }
    assert_eq!(server.keys(), [""; 0]);
}

impl Store for Server {
    type Session = Connection;

    async fn session(&self) -> Connection {
        self.connect()
    }
}

impl Session for Connection {
    async fn read(&mut self, token: u64) -> Result<i64, Stale> {
        let value: Option<i64> = guarded(self, token, &["GET"])?;
        Ok(value.unwrap_or(0))
    }

    async fn read_without_token(&mut self) -> i64 {
        let value: Option<i64> = cmd("GET").arg(DATA).query(self).unwrap();
        value.unwrap_or(0)
    }

    async fn write(&mut self, token: u64, value: i64) -> Result<(), Stale> {
        guarded(self, token, &["SET", &value.to_string()])
    }
}

trait Connect {
    fn connect(&self) -> Connection;
}

impl Connect for Server {
    fn connect(&self) -> Connection {
        let client = Client::open(self.url()).unwrap();
        client.get_connection().unwrap()
    }
}

fn guarded<T: FromRedisValue>(
    connection: &mut Connection,
    token: u64,
    words: &[&str],
) -> Result<T, Stale> {
    let script = Script::new(GUARDED);
    let mut call = script.key(FENCE);
    call.key(DATA).arg(token);
    for word in words {
        call.arg(*word);
    }
    call.invoke(connection).map_err(stale)
}

fn stale(error: RedisError) -> Stale {
    assert_eq!(error.code(), Some(STALE), "{error}");
    Stale
}
