//! The examples do what their first lines say, run as a user would run them.

mod common;
#[path = "examples/promql.rs"]
mod promql;

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use common::{await_state, voting};
use redlock_runtime::{Redlock, fence};
use redlock_tests::{Cluster, Postgres, Server, Worker};
use tokio::task::{JoinHandle, spawn_blocking};

/// What an example prints that runs on nodes in its own memory.
const WARNING: &str = "locks hold in this process only";

/// The example's executable. Cargo builds it, unless `cargo test --workspace` has done so.
fn example(name: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let test = env::current_exe().unwrap();
        let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
        let mut build = Command::new(env!("CARGO"));
        // With the features that the tests have, so that nothing is built a second time.
        build.args(["build", "--workspace", "--all-features", "--examples"]);
        build.arg("--target-dir").arg(profile.parent().unwrap());
        // What Cargo says to this test of its package; `ring` would be built again for it.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                build.env_remove(&name);
            }
        }
        assert!(build.status().unwrap().success());
        profile.join("examples")
    });
    let mut command = Command::new(folder.join(name));
    command.env_remove("REDLOCK_NODES");
    command
}

fn run<A: AsRef<OsStr>>(name: &str, args: &[A]) -> Output {
    example(name).args(args).output().unwrap()
}

fn closing_line(output: &Output) -> &str {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().last().unwrap_or_default()
}

#[test]
fn the_flash_sale_sells_exactly_the_stock_on_embedded_nodes() {
    let output = run::<&str>("flash_sale", &[]);
    let line = closing_line(&output);
    assert!(
        line.starts_with("sold 10 of 10, oversold 0, refused 290, failed 0,"),
        "{line}"
    );
    assert!(output.status.success());
}

#[test]
fn the_flash_sale_oversells_without_its_lock() {
    let output = run("flash_sale", &["--without-lock"]);
    let line = closing_line(&output);
    assert!(!line.contains("oversold 0"), "{line}");
    assert!(!output.status.success());
}

#[test]
fn the_flash_sale_over_processes_wants_real_nodes_and_says_so() {
    let output = run("flash_sale", &["--processes", "4"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("REDLOCK_NODES"), "{text}");
    assert!(!output.status.success());
}

#[test]
fn exports_use_three_permits_and_no_more() {
    let output = run::<&str>("export_slots", &[]);
    let line = closing_line(&output);
    assert!(
        line.starts_with("30 exports, at most 3 at a time, failed 0,"),
        "{line}"
    );
    assert!(output.status.success());
    let output = run("export_slots", &["--without-lock"]);
    assert!(!output.status.success());
}

#[tokio::test]
async fn exports_of_four_processes_use_three_permits_and_no_more() {
    let cluster = Cluster::start(3);
    in_use(&cluster).await;
    let service = tempfile::tempdir().unwrap();
    let exporters: Vec<_> = (0..4)
        .map(|_| {
            let mut command = example("export_slots");
            command
                .arg("--service")
                .arg(service.path())
                .env("REDLOCK_NODES", cluster.url_list())
                .stdout(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for exporter in exporters {
        let output = spawn_blocking(|| exporter.wait_with_output());
        let output = output.await.unwrap().unwrap();
        // It has seen no more than three of all of them.
        assert!(output.status.success(), "{}", closing_line(&output));
    }
}

/// Servers that have just been started are new to everybody; the sale is not about that.
async fn in_use(cluster: &Cluster) {
    let builder = Redlock::builder().nodes(cluster.urls());
    drop(voting(builder.assume_fresh(true)).await);
    cluster.iter().for_each(Server::settle);
}

#[tokio::test]
async fn four_processes_sell_exactly_the_stock_while_one_server_is_killed_and_one_is_stopped() {
    let cluster = Cluster::start(5);
    in_use(&cluster).await;
    let mut sale = example("flash_sale")
        .args(["--processes", "4", "--stock", "120", "--buyers", "360"])
        .env("REDLOCK_NODES", cluster.url_list())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress =
        std::io::BufRead::lines(std::io::BufReader::new(sale.stderr.take().unwrap()));
    let mut wait_for_sales = |sales: usize| {
        let sold = progress.by_ref().map_while(Result::ok);
        let sold = sold.filter(|line| line.starts_with("sold one"));
        assert_eq!(sold.take(sales).count(), sales, "the sale is over too soon");
    };
    wait_for_sales(20);
    cluster[0].kill();
    wait_for_sales(20);
    cluster[3].stop();
    let rest: Vec<String> = progress.map_while(Result::ok).collect();
    let output = sale.wait_with_output().unwrap();
    let line = closing_line(&output);
    assert!(
        line.starts_with("sold 120 of 120, oversold 0, refused 240, failed 0,"),
        "{line} {rest:?}"
    );
    assert!(output.status.success());
}

/// One request, its status and its answer.
fn post(address: &str, path: &str, body: &str) -> (u16, String) {
    request(address, "POST", path, body)
}

fn get(address: &str, path: &str) -> (u16, String) {
    request(address, "GET", path, "")
}

fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.to_lowercase())
}

/// The service of an example, and its address.
async fn service(name: &str, cluster: &Cluster) -> (Worker, String) {
    service_of(example(name), cluster).await
}

async fn service_of(mut command: Command, cluster: &Cluster) -> (Worker, String) {
    in_use(cluster).await;
    command.env("REDLOCK_NODES", cluster.url_list());
    listening(command).await
}

async fn listening(mut command: Command) -> (Worker, String) {
    let service = Worker::from_command(command.env("PORT", "0"));
    let line = service
        .await_line(|line| line.starts_with("listening on"))
        .await;
    (service, line.rsplit('/').next().unwrap().to_owned())
}

async fn end(service: Worker) {
    service.terminate();
    service.await_line(|line| line == "shut down").await;
    service.wait_success();
}

/// The service, its address, and a request that pays order 7 and has its lock.
async fn service_that_is_paid(cluster: &Cluster) -> (Worker, String, JoinHandle<(u16, String)>) {
    let (service, address) = service("axum_orders", cluster).await;
    let item = r#"{"sku":"lamp","cents":1999}"#;
    assert_eq!(post(&address, "/orders/7/items", item).0, 200);

    let first = address.clone();
    let paying = spawn_blocking(move || post(&first, "/orders/7/pay", ""));
    cluster[0].await_event("order:7", "set", 2).await;
    (service, address, paying)
}

#[tokio::test]
async fn the_axum_service_answers_409_to_contention_and_503_to_an_outage() {
    let cluster = Cluster::start(3);
    let (_service, address, paying) = service_that_is_paid(&cluster).await;
    let (status, head) = post(&address, "/orders/7/pay", "");
    assert_eq!(status, 409);
    assert!(head.contains("retry-after: "), "{head}");
    assert_eq!(paying.await.unwrap().0, 200);

    cluster[0].kill();
    cluster[1].kill();
    assert_eq!(post(&address, "/orders/7/pay", "").0, 503);
}

#[tokio::test]
async fn the_axum_service_answers_what_it_has_begun_and_ends_on_sigterm() {
    let cluster = Cluster::start(3);
    let (service, address, paying) = service_that_is_paid(&cluster).await;
    // A frozen node holds nothing up.
    cluster[2].stop();

    end(service).await;
    assert_eq!(paying.await.unwrap().0, 200);
    assert!(TcpStream::connect(address).is_err());
    for node in 0..2 {
        cluster[node].assert_free("order:7");
    }
}

/// The program of the guide's page "From nothing to a service".
#[tokio::test]
async fn the_service_from_nothing_pays_once_reports_itself_and_ends_on_sigterm() {
    let cluster = Cluster::start(3);
    let database = Postgres::start();
    let mut command = example("from_nothing");
    command.env("DATABASE_URL", database.url());
    let (service, address) = service_of(command, &cluster).await;
    let pay = |id: u32| {
        let (address, path) = (address.clone(), format!("/orders/{id}/pay"));
        spawn_blocking(move || post(&address, &path, ""))
    };
    let paying = pay(7);
    cluster[0].await_event("order:7", "set", 1).await;
    let (status, head) = pay(7).await.unwrap();
    assert_eq!(status, 409);
    assert!(head.contains("retry-after: 1\r\n"), "{head}");
    assert_eq!(paying.await.unwrap().0, 204);

    // A later holder has been at the order: the database refuses this one.
    let config = database.url();
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let later = "INSERT INTO payment VALUES (8, 9223372036854775807)";
    client.batch_execute(later).await.unwrap();
    assert_eq!(pay(8).await.unwrap().0, 409);
    let paid = client.query("SELECT id FROM payment WHERE paid", &[]);
    let paid: Vec<i64> = paid.await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(paid, [7]);

    assert_eq!(get(&address, "/readyz").0, 200);
    let granted = r#"redlock_acquisitions_total{section="from_nothing::pay",outcome="granted"} 2"#;
    let (_, metrics) = get(&address, "/metrics");
    assert!(metrics.contains(granted), "{metrics}");
    cluster[0].kill();
    cluster[1].kill();
    assert_eq!(pay(9).await.unwrap().0, 503);
    assert_eq!(get(&address, "/readyz").0, 503);
    assert_eq!(get(&address, "/livez").0, 200);

    end(service).await;
}

/// Statements are locked by a layer.
#[tokio::test]
async fn the_axum_service_makes_one_statement_at_a_time_for_each_customer() {
    let cluster = Cluster::start(3);
    let (_service, address) = service("axum_orders", &cluster).await;
    let path = "/customers/ann/statement";
    let redlock = Redlock::builder().nodes(cluster.urls()).build();
    let redlock = redlock.await.unwrap();
    let other = redlock.lock(path).acquire().await.unwrap();
    let (status, head) = request(&address, "GET", path, "");
    assert_eq!(status, 409);
    assert!(head.contains("retry-after: "), "{head}");
    assert_eq!(
        request(&address, "GET", "/customers/bob/statement", "").0,
        200
    );
    drop(other);
    assert_eq!(request(&address, "GET", path, "").0, 200);
}

#[tokio::test]
async fn the_actix_service_answers_409_to_contention_and_503_to_an_outage() {
    let cluster = Cluster::start(3);
    let (service, address) = service("actix_orders", &cluster).await;
    let first = address.clone();
    let paying = spawn_blocking(move || post(&first, "/orders/7/pay", ""));
    cluster[0].await_event("order:7", "set", 1).await;
    let (status, head) = post(&address, "/orders/7/pay", "");
    assert_eq!(status, 409);
    assert!(head.contains("retry-after: 1\r\n"), "{head}");
    // The text of the error is not for clients, and nothing has no type.
    assert!(head.contains("content-length: 0\r\n"), "{head}");
    end(service).await;
    assert_eq!(paying.await.unwrap().0, 200);
    for node in 0..3 {
        cluster[node].assert_free("order:7");
    }

    let (_service, address) = self::service("actix_orders", &cluster).await;
    cluster[0].kill();
    cluster[1].kill();
    assert_eq!(post(&address, "/orders/7/pay", "").0, 503);
}

#[tokio::test]
async fn the_grpc_service_answers_aborted_to_contention_and_unavailable_to_an_outage() {
    let cluster = Cluster::start(3);
    let (service, address) = service("tonic_orders", &cluster).await;
    let pay = || {
        let address = address.clone();
        spawn_blocking(move || {
            let output = run("tonic_orders", &["pay", &address, "7"]);
            String::from_utf8(output.stdout).unwrap()
        })
    };
    let paying = pay();
    cluster[0].await_event("order:7", "set", 1).await;
    let line = pay().await.unwrap();
    assert!(line.starts_with("Aborted: "), "{line}");
    assert!(line.contains("\"1000\""), "{line}");
    assert_eq!(paying.await.unwrap(), "order 7 is paid\n");
    cluster[0].kill();
    cluster[1].kill();
    let line = pay().await.unwrap();
    assert!(line.starts_with("Unavailable: "), "{line}");
    end(service).await;
}

#[tokio::test]
async fn the_cron_job_ends_its_run_and_begins_no_other_on_sigterm() {
    let cluster = Cluster::start(3);
    in_use(&cluster).await;
    let mut command = example("cron_singleton");
    command.args(["--replicas", "1", "--ticks", "1000"]);
    command.env("REDLOCK_NODES", cluster.url_list());
    let replica = Worker::from_command(&mut command);
    replica.await_expected("replica 1 runs the job").await;

    replica.terminate();

    let sum = "1000 ticks on 1 replicas: ran 1, skipped 0, failed 0";
    replica.await_expected(sum).await;
    replica.wait_success();
    cluster.assert_free("cron:report");
}

#[test]
fn one_replica_of_the_cron_job_runs_and_the_others_skip() {
    let output = run("cron_singleton", &["--ticks", "2"]);
    let line = closing_line(&output);
    assert!(line.ends_with("ran 2, skipped 4, failed 0"), "{line}");
    assert!(output.status.success());
}

/// The leader's jobs are lines in a row, so no other replica has led between them.
#[test]
fn each_replica_of_the_scheduler_leads_without_another_one() {
    let output = run("scheduler", &["--ticks", "2"]);
    assert_eq!(
        closing_line(&output),
        "3 of 3 replicas led, one after the other"
    );
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    for term in lines[..9].chunks(3) {
        let leader = term[0].strip_suffix(" leads").unwrap();
        let job = format!("{leader} starts a job with token ");
        assert!(
            term[1..].iter().all(|line| line.starts_with(&job)),
            "{text}"
        );
    }
}

#[test]
fn the_stale_write_is_refused() {
    let output = run::<&str>("fenced_write", &[]);
    assert!(output.status.success(), "{output:?}");
}

/// A database, and the example on it; if so, account 1 has seen a holder that is later than all.
async fn bank(later_holder: bool) -> (Postgres, Command, tokio_postgres::Client) {
    let database = Postgres::start();
    let mut config: tokio_postgres::Config = database.url().parse().unwrap();
    config.options("-c search_path=redlock_example");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    if later_holder {
        let schema = "CREATE SCHEMA redlock_example";
        client.batch_execute(schema).await.unwrap();
        let install = fence::postgres::INSTALL;
        client.batch_execute(install).await.unwrap();
        let guard = client.execute(fence::postgres::GUARD, &[&"account:1", &i64::MAX]);
        guard.await.unwrap();
    }
    let mut command = example("transfer");
    command.env("DATABASE_URL", database.url());
    (database, command, client)
}

#[tokio::test]
async fn transfers_overdraw_no_account() {
    let (_database, mut command, _client) = bank(false).await;
    let output = command.output().unwrap();
    let line = closing_line(&output);
    assert!(line.ends_with("stale 0; accounts overdrawn 0"), "{line}");
    assert!(output.status.success(), "{output:?}");
    assert_warned_once("transfer", &String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn the_database_refuses_transfers_of_an_account_that_a_later_holder_has_seen() {
    let (_database, mut command, client) = bank(true).await;
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!closing_line(&output).contains("stale 0"), "{output:?}");
    let query = "SELECT cents FROM account WHERE id = 1";
    let cents: i64 = client.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(cents, 1_000, "as it was opened");
}

#[tokio::test]
async fn readers_of_the_report_run_together_and_see_no_half_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = example("report_cache");
    let output = command.env("REPORT", directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("320 reads"), "{text}");
    assert!(!text.contains("up to 1 at once"), "{text}");
    assert!(text.contains("torn 0\n`report` is shared"), "{text}");
    assert_warned_once("report_cache", &String::from_utf8_lossy(&output.stderr));
}

/// Every example says that no other process is locked out, and how to change that.
#[tokio::test]
async fn examples_without_servers_say_how_far_their_locks_reach() {
    let runs: [(&str, &[&str]); 3] = [
        ("flash_sale", &["--buyers", "1"]),
        ("cron_singleton", &["--ticks", "1"]),
        ("fenced_write", &[]),
    ];
    for (name, args) in runs {
        let output = run(name, args);
        assert_warned_once(name, &String::from_utf8_lossy(&output.stderr));
    }

    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = example("axum_orders");
    command.stderr(log.reopen().unwrap());
    let _service = listening(command).await;
    assert_warned_once("axum_orders", &fs::read_to_string(log.path()).unwrap());
}

#[track_caller]
fn assert_warned_once(name: &str, text: &str) {
    let mut lines = text.lines().filter(|line| line.contains(WARNING));
    let line = lines.next().unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(
        line.contains("set REDLOCK_NODES=redis://"),
        "{name}: {line}"
    );
    assert_eq!(lines.next(), None, "{name}");
}

#[tokio::test]
async fn an_example_on_servers_does_not_warn() {
    let cluster = Cluster::start(3);
    in_use(&cluster).await;
    let mut command = example("fenced_write");
    let output = command.env("REDLOCK_NODES", cluster.url_list()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains(WARNING), "{text}");
}

#[tokio::test]
async fn the_dashboard_shows_a_killed_node_and_a_contended_key_and_ends_on_sigterm() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/dashboard");
    let cluster = Cluster::start(3);
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = example("dashboard");
    command.stderr(log.reopen().unwrap());
    let (service, address) = service_of(command, &cluster).await;
    let shown = |series: &str| {
        let (_, answer) = get(&address, "/metrics");
        let line = answer.lines().find(|line| line.starts_with(series));
        line.is_some_and(|line| !line.ends_with(" 0"))
    };

    let refused = r#"redlock_acquisitions_total{section="stock.reserve",outcome="contended"}"#;
    await_state("a contended key", || shown(refused)).await;
    let file = |name: &str| fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let (panels, alerts) = (file("grafana.json"), file("alerts.yml"));
    let held = "redlock_hold_seconds_count{section=\"report.build\"}";
    await_state("a long section", || shown(held)).await;
    let (_, healthy) = get(&address, "/metrics");
    for query in promql::of_panels(&panels) {
        assert_eq!(query.check(&healthy), Ok(true), "{query:?}");
    }
    for query in promql::of_alerts(&alerts) {
        assert_eq!(query.check(&healthy), Ok(false), "{query:?}");
    }
    cluster[0].kill();
    let node = format!("127.0.0.1:{}", cluster[0].port());
    let state = |state: &str| format!(r#"redlock_node_state{{node="{node}",state="{state}"}}"#);
    await_state("a killed node", || shown(&state("down"))).await;
    let (_, answer) = get(&address, "/metrics");
    let fires = promql::of_alerts(&alerts).filter(|query| query.check(&answer) == Ok(true));
    assert_eq!(fires.count(), 1);
    cluster[0].restart();
    await_state("a quarantine", || shown(&state("quarantined"))).await;
    let text = fs::read_to_string(log.path()).unwrap();
    assert!(text.contains(&format!("{node} is unreachable")), "{text}");
    assert!(text.contains(&format!("{node} was restarted")), "{text}");

    end(service).await;
    cluster[1].assert_free("stock:lamp");
}
