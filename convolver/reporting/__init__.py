"""What people see: terminal tables, annotated source, HTML, exports."""
