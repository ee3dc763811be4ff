// Threads of Rust: thread i does i + 1 parts of work; results go through a mutex (a futex) and a channel.
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

const THREADS: u64 = 4;
const ROUNDS: u64 = 10;
const TURNS: u64 = 300000;

#[inline(never)]
fn spin(turns: u64) -> f64 {
    let mut x = 1.0;
    for _ in 0..turns {
        x = std::hint::black_box(x * 0.99999 + 1e-9);
    }
    x
}

fn main() {
    let sum = Arc::new(Mutex::new(0.0));
    let (done, ends) = mpsc::channel();
    let made: Vec<_> = (0..THREADS)
        .map(|number| {
            let (sum, done) = (sum.clone(), done.clone());
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let mine = spin(TURNS * (number + 1));
                    *sum.lock().unwrap() += mine;
                }
                done.send(number).unwrap();
            })
        })
        .collect();
    let count: u64 = (0..THREADS).map(|_| ends.recv().unwrap()).sum();
    for one in made {
        one.join().unwrap();
    }
    println!("{:.3} {}", *sum.lock().unwrap(), count);
}
