//! Python bindings of the load generator: conversions, errors, the GIL; no logic.

use pyo3::prelude::*;

mod asker;
mod histogram;
mod null_server;
mod object_list;
mod record;
mod record_files;
mod secrecy;
mod store;
mod tables;
mod trial;

/// The load generator.
#[pymodule]
fn _loadgen(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("IS_RELEASE_BUILD", !cfg!(debug_assertions))?;
    module.add("ACTION_KINDS_MAX", loadstone_loadgen::ACTION_KINDS_MAX)?;
    module.add("TARGET_ERROR_KINDS", loadstone_loadgen::error::Kind::WORDS)?;
    module.add("TargetError", module.py().get_type::<trial::TargetError>())?;
    module.add_class::<asker::Asker>()?;
    module.add_class::<histogram::Histogram>()?;
    module.add_class::<null_server::NullServer>()?;
    module.add_class::<store::Store>()?;
    module.add("TooLargeError", module.py().get_type::<record::TooLargeError>())?;
    module.add_class::<record::Schema>()?;
    module.add_class::<record::Table>()?;
    module.add_class::<record_files::StreamEncoder>()?;
    module.add_class::<record_files::StreamReader>()?;
    module.add_class::<record_files::ParquetEncoder>()?;
    module.add("INTERVALS", record::Schema::intervals())?;
    module.add("ACTIONS", record::Schema::actions())?;
    module.add("PROBES", record::Schema::probes())?;
    module.add("REQUESTS", record::Schema::requests())?;
    module.add("LIST", record::Schema::list())?;
    module.add_class::<trial::Control>()?;
    module.add_function(wrap_pyfunction!(tables::bucket_name, module)?)?;
    module.add_function(wrap_pyfunction!(tables::absent_secret, module)?)?;
    module.add_function(wrap_pyfunction!(tables::drivers, module)?)?;
    module.add_function(wrap_pyfunction!(tables::from_environment, module)?)?;
    module.add_function(wrap_pyfunction!(tables::is_in_kernel_folder, module)?)?;
    module.add_function(wrap_pyfunction!(tables::longest_sealed, module)?)?;
    module.add_function(wrap_pyfunction!(tables::operations, module)?)?;
    module.add_function(wrap_pyfunction!(tables::profile_commands, module)?)?;
    module.add_function(wrap_pyfunction!(tables::read_target, module)?)?;
    module.add_function(wrap_pyfunction!(tables::sealed_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(tables::volume_of, module)?)?;
    module.add_function(wrap_pyfunction!(object_list::list_facts, module)?)?;
    module.add_function(wrap_pyfunction!(object_list::list_objects, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::blot, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::foreign_line, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::plain, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::variable_named, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::file_named, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::is_harmless_header, module)?)?;
    module.add_function(wrap_pyfunction!(secrecy::keep_secrets, module)?)?;
    module.add_function(wrap_pyfunction!(trial::check, module)?)?;
    module.add_function(wrap_pyfunction!(trial::judge_history, module)?)?;
    module.add_function(wrap_pyfunction!(trial::on_clock, module)?)?;
    module.add_function(wrap_pyfunction!(trial::run_trial, module)?)?;
    Ok(())
}
