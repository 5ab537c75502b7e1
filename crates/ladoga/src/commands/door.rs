//! `ladoga serve --engine cassandra`: a door without a store of its own.

use std::sync::Arc;

use ladoga_env::Env;
use ladoga_node::cassandra::{self, Driver};
use ladoga_node::{Config, Stateless};
use sd_notify::NotifyState;
use tokio::runtime::{Builder, Runtime};

use super::life::{Signals, cannot_start, failed, on_a_thread, watched};
use super::telemetry::Telemetry;
use super::{Failure, notify};
use crate::logging::LIFE;
use crate::settings::Settings;

/// Runs a door until a signal or a panic ends it: connect → listen → serve → drain → disconnect.
pub(super) fn serve(
    env: &Env,
    (settings, telemetry): (&Settings, Telemetry),
    config: Config,
    cassandra: &cassandra::Settings,
) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let Some(driver) = connect(&runtime, &mut signals, env, cassandra)? else {
        // Nothing was served yet.
        return Ok(());
    };
    let described = driver.describe();
    let door = Stateless::start(config, Arc::clone(&env.clock), driver)
        .map_err(|error| cannot_start(settings, &error))?;
    announce(settings, &door, &described);
    notify::tell(NotifyState::Ready);
    let ended = runtime.block_on(signals.unless_one_comes(watched(door.panicked())));
    notify::tell(NotifyState::Stopping);
    match ended {
        Ok(panicked) => tracing::info!(target: LIFE, "{panicked}: finishing the requests in flight"),
        Err(signal) => tracing::info!(target: LIFE, "{signal}: finishing the requests in flight"),
    }
    let stopped = on_a_thread("stop", move || {
        let stopped = door.stop();
        telemetry.stop();
        stopped
    })?;
    match runtime.block_on(signals.unless_one_insists(stopped))? {
        Ok(Ok(())) => {
            tracing::info!(target: LIFE, "stopped");
            Ok(())
        }
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(Failure::Failed("stopping panicked".to_owned())),
    }
}

/// Connects, unless a signal comes first.
fn connect(
    runtime: &Runtime,
    signals: &mut Signals,
    env: &Env,
    settings: &cassandra::Settings,
) -> Result<Option<Driver>, Failure> {
    let (settings, clock) = (settings.clone(), Arc::clone(&env.clock));
    let connected =
        on_a_thread("connect", move || Driver::connect(&settings, Box::new(move || clock.wall_us())))?;
    match runtime.block_on(signals.unless_one_comes(connected)) {
        Ok(Ok(connected)) => connected.map(Some).map_err(failed),
        Ok(Err(_)) => Err(Failure::Failed("connecting to Cassandra panicked".to_owned())),
        Err(_) => Ok(None),
    }
}

fn announce(settings: &Settings, door: &Stateless, described: &str) {
    let addresses = settings.urls(door.addresses(), door.resp_addresses());
    tracing::info!(
        target: LIFE,
        "listening on {}, keys in {described}, {} event loop{}",
        addresses.join(" and "),
        settings.threads,
        if settings.threads == 1 { "" } else { "s" },
    );
}
