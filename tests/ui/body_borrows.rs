use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn argument_escapes(name: &str) -> Result<(), LockError> {
    std::thread::spawn(move || println!("{name}"));
    Ok(())
}

#[redis_lock(key = "order")]
async fn borrowed_too_long<'a>() -> Result<&'a str, LockError> {
    let text = String::new();
    Ok(&text)
}

#[redis_lock(key = "order:{id}")]
async fn moved_twice(id: String) -> Result<String, LockError> {
    drop(id);
    Ok(id)
}

#[redis_lock(key = "order")]
async fn reference_to_local() -> Result<&'static str, LockError> {
    let name = String::new();
    Ok(&name)
}

fn main() {}
